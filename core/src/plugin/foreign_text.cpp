#include "plugin/foreign_text.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/utf8.hpp"

namespace dllm {

std::string printable(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Step step = next_utf8(bytes);
    const bool is_character = step.kind == Utf8Kind::character;
    const std::size_t size = is_character ? step.size : 1;
    const char first = bytes.front();
    if (first == '\n' || first == '\r' || first == '\t') {
      text += ' ';
    } else if (!is_character || is_control(step.code_point)) {
      text += '?';
    } else {
      text += bytes.substr(0, size);
    }
    bytes.remove_prefix(size);
  }
  return text;
}

std::string split_fix(std::string& fact) {
  static constexpr std::string_view kMark = ". Fix: ";
  const auto at = fact.find(kMark);
  if (at == std::string::npos) return {};
  std::string fix = fact.substr(at + kMark.size());
  fact.resize(at);
  if (fix.ends_with('.')) fix.pop_back();
  return fix;
}

std::string message_of(const std::exception& error) {
  const char* text = error.what();
  return text == nullptr ? std::string("(no message)") : printable(text);
}

std::string ErrorBuffer::text() const {
  const char* begin = error_.message;
  return printable({begin, ::strnlen(begin, sizeof error_.message)});
}

Error plugin_error(dllm_status status, const ErrorBuffer& buffer, std::string_view owner,
                   std::string_view call) {
  std::string fact = buffer.text();
  std::string fix = split_fix(fact);
  const bool known = status == DLLM_ERROR || status == DLLM_BAD_OPTION;
  if (fact.empty()) {
    fact = fmt::format("{}() failed with status {} and no message", call, status);
  } else if (!known) {
    fact += fmt::format(" [{}() returned status {}, which the plugin ABI does not define]", call,
                        status);
  }
  if (status == DLLM_BAD_OPTION) {
    if (fix.empty()) fix = fmt::format("correct the options of {}", owner);
    return Error(ErrorCode::bad_usage, std::move(fact), std::string(owner), std::move(fix));
  }
  if (fix.empty()) fix = "report it to the author of the plugin";
  return Error(ErrorCode::bad_plugin, std::move(fact), std::string(owner), std::move(fix));
}

Error contract_error(std::string fact, std::string_view owner) {
  return Error(ErrorCode::bad_plugin, std::move(fact), std::string(owner),
               "report it to the author of the plugin");
}

}  // namespace dllm
