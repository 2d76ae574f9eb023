#include "tokenizer/chat_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.hpp"
#include "dllm/error.hpp"

namespace dllm::tokenizing {
namespace {

constexpr std::array<std::string_view, 3> kLladaMarkers{"<|start_header_id|>", "<|end_header_id|>",
                                                        "<|eot_id|>"};
constexpr std::array<std::string_view, 2> kLladaDetect{"<|start_header_id|>", "<|end_header_id|>"};
constexpr std::array<std::string_view, 2> kChatmlMarkers{"<|im_start|>", "<|im_end|>"};
constexpr std::array<std::string_view, 1> kChatmlDetect{"<|im_start|>"};
constexpr std::array<std::string_view, 3> kLingMarkers{"<role>", "</role>", "<|role_end|>"};
constexpr std::array<std::string_view, 2> kLingDetect{"<role>ASSISTANT</role>", "<|role_end|>"};

// Sources: chat templates of LLaDA-8B-Instruct (tokenizer_config.json), Dream and Qwen (ChatML),
// Ling 2 as LLaDA-MoE and LLaDA2 use it.
constexpr std::array kRows{
    ChatFormatRow{.name = "chatml",
                  .detect = kChatmlDetect,
                  .markers = kChatmlMarkers,
                  .message = "<|im_start|>{role}\n{content}<|im_end|>\n",
                  .answer = "<|im_start|>assistant\n",
                  .system_role = "system",
                  .user_role = "user",
                  .assistant_role = "assistant",
                  .system_suffix = ""},
    ChatFormatRow{.name = "llada",
                  .detect = kLladaDetect,
                  .markers = kLladaMarkers,
                  .message = "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>",
                  .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n",
                  .system_role = "system",
                  .user_role = "user",
                  .assistant_role = "assistant",
                  .system_suffix = ""},
    ChatFormatRow{.name = "ling",
                  .detect = kLingDetect,
                  .markers = kLingMarkers,
                  .message = "<role>{role}</role>{content}<|role_end|>",
                  .answer = "<role>ASSISTANT</role>",
                  .system_role = "SYSTEM",
                  .user_role = "HUMAN",
                  .assistant_role = "ASSISTANT",
                  .system_suffix = "detailed thinking off"},
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// ChatML templates write their default system message as one literal:
// '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n'. Where the system text comes from
// a variable instead, a quote ends the literal first. `\n` is a line feed or its escape.
std::string default_system_of(std::string_view jinja) {
  constexpr std::string_view kOpen = "<|im_start|>system";
  for (std::size_t at = jinja.find(kOpen); at != std::string_view::npos;
       at = jinja.find(kOpen, at + 1)) {
    std::string_view rest = jinja.substr(at + kOpen.size());
    if (rest.starts_with("\n")) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else {
      continue;
    }
    const std::string_view literal = rest.substr(0, rest.find("<|im_end|>"));
    if (literal.size() < rest.size() && !literal.empty() &&
        literal.find_first_of("'\"{}\\") == std::string_view::npos) {
      return std::string(literal);
    }
  }
  return {};
}

// What Python's str.strip() removes, and so Jinja's trim: characters of bidirectional class WS, B
// or S and of category Zs (CPython, `_PyUnicode_IsWhitespace`).
bool is_python_space(std::uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view trimmed(std::string_view text) {
  std::size_t begin = text.size();
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.substr(at));
    if (step.kind != Utf8Kind::character || !is_python_space(step.code_point)) {
      begin = std::min(begin, at);
      end = at + step.size;
    }
    at += step.size;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

class Renderer {
 public:
  explicit Renderer(const ChatFormat& format) : format_(format) {}

  void message(const ChatMessage& message, std::string_view suffix) {
    std::string content(format_.trims_content ? trimmed(message.content) : message.content);
    if (!suffix.empty()) content.append(content.empty() ? "" : "\n").append(suffix);
    expand(format_.row->message, role_name(message.role), content);
  }

  void answer() { expand(format_.row->answer, {}, {}); }

  std::vector<ChatPart> take() { return std::move(parts_); }

 private:
  std::string_view role_name(const std::string& role) const {
    if (role == "system") return format_.row->system_role;
    if (role == "user") return format_.row->user_role;
    if (role == "assistant") return format_.row->assistant_role;
    throw Error(ErrorCode::bad_usage, fmt::format("unknown chat role \"{}\"", role),
                fmt::format("chat format {}", format_.row->name), "use system, user or assistant");
  }

  void expand(std::string_view form, std::string_view role, std::string_view content) {
    while (!form.empty()) {
      std::size_t taken = 1;
      const auto& markers = format_.row->markers;
      const auto marker = std::find_if(markers.begin(), markers.end(),
                                       [&](std::string_view m) { return form.starts_with(m); });
      if (marker != markers.end()) {
        taken = marker->size();
        parts_.push_back({true, std::string(*marker)});
      } else if (constexpr std::string_view kRole = "{role}"; form.starts_with(kRole)) {
        taken = kRole.size();
        text(role);
      } else if (constexpr std::string_view kContent = "{content}"; form.starts_with(kContent)) {
        taken = kContent.size();
        text(content);
      } else {
        text(form.substr(0, 1));
      }
      form.remove_prefix(taken);
    }
  }

  void text(std::string_view added) {
    if (added.empty()) return;
    if (parts_.empty() || parts_.back().is_marker) parts_.push_back({});
    parts_.back().text += added;
  }

  const ChatFormat& format_;
  std::vector<ChatPart> parts_;
};

}  // namespace

ChatFormat detect_chat_format(std::string_view jinja) {
  ChatFormat format;
  for (const ChatFormatRow& row : kRows) {
    const bool matches = std::all_of(row.detect.begin(), row.detect.end(),
                                     [&](std::string_view part) { return contains(jinja, part); });
    if (!matches) continue;
    format.row = &row;
    format.begins_with_bos = contains(jinja, "bos_token") || contains(jinja, "<|startoftext|>");
    format.trims_content = contains(jinja, "| trim") || contains(jinja, "|trim");
    format.has_system_suffix = !row.system_suffix.empty() && contains(jinja, "detailed thinking");
    format.default_system = default_system_of(jinja);
    break;
  }
  return format;
}

std::string chat_format_names() {
  std::string names;
  for (const ChatFormatRow& row : kRows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

std::vector<ChatPart> render_chat(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Renderer renderer(format);
  const std::string_view suffix =
      format.has_system_suffix ? format.row->system_suffix : std::string_view();
  const bool has_system = !messages.empty() && messages.front().role == "system";
  if (!has_system && !(suffix.empty() && format.default_system.empty())) {
    renderer.message({"system", format.default_system}, suffix);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    renderer.message(messages[i], i == 0 && has_system ? suffix : std::string_view());
  }
  renderer.answer();
  return renderer.take();
}

}  // namespace dllm::tokenizing
