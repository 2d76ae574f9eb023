#include "plugin/foreign_text.hpp"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstring>

namespace dllm {

std::string printable(std::string_view bytes) {
  std::string text;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  for (std::size_t at = 0; at < bytes.size();) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(data + at, static_cast<utf8proc_ssize_t>(bytes.size() - at), &code);
    const bool ill_formed = length <= 0;
    const bool control = code < 0x20 || (code >= 0x7f && code <= 0x9f);
    if (!ill_formed && (code == '\n' || code == '\r' || code == '\t')) {
      text += ' ';
    } else if (ill_formed || control) {
      text += '?';
    } else {
      text.append(bytes.substr(at, static_cast<std::size_t>(length)));
    }
    at += ill_formed ? 1 : static_cast<std::size_t>(length);
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
