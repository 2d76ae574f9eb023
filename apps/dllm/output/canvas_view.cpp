#include "output/canvas_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dllm/display_text.hpp"
#include "output/terminal_text.hpp"

namespace dllm::cli {
namespace {

// Cells a character may take. Wide scripts and emoji take two; where a terminal draws fewer, a row
// only ends early. Ranges: Unicode EastAsianWidth, W and F, coarsely.
std::size_t cells(char32_t point) {
  const bool wide = (point >= 0x1100 && point <= 0x115F) || (point >= 0x2E80 && point <= 0xA4CF) ||
                    (point >= 0xAC00 && point <= 0xD7A3) || (point >= 0xF900 && point <= 0xFAFF) ||
                    (point >= 0xFE30 && point <= 0xFE6F) || (point >= 0xFF00 && point <= 0xFF60) ||
                    (point >= 0xFFE0 && point <= 0xFFE6) ||
                    (point >= 0x1F000 && point <= 0x1FAFF) ||
                    (point >= 0x20000 && point <= 0x3FFFD);
  return wide ? 2 : 1;
}

// One line: control characters as U+FFFD, line ends as a sign.
std::string on_one_line(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = character_bytes(static_cast<unsigned char>(text[i]));
    const std::string_view character = text.substr(i, n);
    i += n;
    if (character == "\n") {
      out += "\\n";
    } else {
      out += steers_terminal(decode_character(character)) ? kReplacement : character;
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> wrap_rows(std::string_view text, TerminalSize size) {
  std::vector<std::string> rows(1);
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = character_bytes(static_cast<unsigned char>(text[i]));
    std::string_view character = text.substr(i, n);
    i += n;
    if (character == "\n") {
      rows.emplace_back();
      used = 0;
      continue;
    }
    const char32_t point = decode_character(character);
    if (steers_terminal(point)) character = kReplacement;
    const std::size_t width = cells(point);
    if (used + width > size.columns) {
      rows.emplace_back();
      used = 0;
    }
    rows.back() += character;
    used += width;
  }
  const std::size_t keep = std::max<std::size_t>(size.rows, 1);
  if (rows.size() > keep) rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(keep));
  return rows;
}

void CanvasView::on_step(const StepView& view) {
  if (!view.step.forward && view.edits.empty()) return;  // nothing changed
  std::vector<std::uint8_t> known;
  for (const std::uint8_t state : view.state.subspan(n_prompt_)) {
    known.push_back(state != DLLM_POSITION_MASKED ? 1 : 0);
  }
  const std::string text = display_text(tokenizer_, view.ids.subspan(n_prompt_), known, kMaskSign);
  if (console_.fancy()) {
    redraw(text);
  } else {
    print_line(view, text);
  }
}

// Up over the last drawing, clear to the end of the screen, draw again. The last row of the
// terminal stays free, for a line that ends there would scroll.
void CanvasView::redraw(const std::string& text) {
  TerminalSize size = terminal_size(console_.fd());
  size.columns = std::max<std::size_t>(size.columns, 2) - 1;
  size.rows = std::max<std::size_t>(size.rows, 2) - 1;
  const std::vector<std::string> rows = wrap_rows(text, size);
  std::string out = "\r";
  if (n_rows_ > 0) out += fmt::format("\x1b[{}A", n_rows_);
  out += "\x1b[J";
  for (const std::string& row : rows) out += row + "\n";
  n_rows_ = rows.size();
  console_.write(out);
}

void CanvasView::print_line(const StepView& view, const std::string& text) {
  console_.write(fmt::format("step {}: {}\n", view.step.step + 1, on_one_line(text)));
}

void CanvasView::finish() {
  // The answer follows on standard output: the drawing goes, the plain lines stay.
  if (n_rows_ > 0) console_.write(fmt::format("\r\x1b[{}A\x1b[J", n_rows_));
  n_rows_ = 0;
}

}  // namespace dllm::cli
