#include "dllm/error.hpp"

#include <utility>

namespace dllm {
namespace {

// what() ends at a NUL: one in a quoted name would cost the message its place and its fix.
std::string with_visible_nul(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\0') {
      out += "\\x00";
    } else {
      out += c;
    }
  }
  return out;
}

std::string join(const std::string& fact, const std::string& where, const std::string& fix) {
  std::string text = fact;
  if (!where.empty()) text += " (" + where + ")";
  if (!fix.empty()) text += ". Fix: " + fix;
  return text.find('\0') == text.npos ? text : with_visible_nul(text);
}

}  // namespace

Error::Error(ErrorCode code, std::string fact, std::string where, std::string fix)
    : std::runtime_error(join(fact, where, fix)),
      code_(code),
      fact_(std::move(fact)),
      where_(std::move(where)),
      fix_(std::move(fix)) {}

void assertion_failed(const char* condition, const char* file, int line) {
  throw Error(ErrorCode::internal, std::string("internal check failed: ") + condition,
              std::string(file) + ":" + std::to_string(line), "report this as a bug");
}

}  // namespace dllm
