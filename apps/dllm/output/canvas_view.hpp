// --visual: the generated part of the canvas as it resolves, on standard error.
//
// On a terminal the text is redrawn in place; else (a pipe, NO_COLOR) each step is a line of its
// own without escape codes. Masked positions are a light shade each; control characters never reach
// the terminal. Thread rule: one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dllm/tokenizer.hpp"
#include "output/console.hpp"
#include "output/step_observer.hpp"

namespace dllm::cli {

/// What a masked position shows.
inline constexpr std::string_view kMaskSign = "\xE2\x96\x91";  // U+2591

/// The text in terminal rows of at most `columns` cells, at most `rows` of them (the last ones).
/// Newlines begin a row; other control characters become U+FFFD.
std::vector<std::string> wrap_rows(std::string_view text, TerminalSize size);

class CanvasView final : public StepObserver {
 public:
  CanvasView(Console& console, const Tokenizer& tokenizer, std::size_t n_prompt)
      : console_(console), tokenizer_(tokenizer), n_prompt_(n_prompt) {}
  void on_step(const StepView& view) override;
  void finish() override;

 private:
  void redraw(const std::string& text);
  void print_line(const StepView& view, const std::string& text);

  Console& console_;
  const Tokenizer& tokenizer_;
  std::size_t n_prompt_;
  std::size_t n_rows_ = 0;  // drawn and to be overwritten
};

}  // namespace dllm::cli
