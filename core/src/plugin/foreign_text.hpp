// Text that a plugin supplied, made safe to show, and its failures turned into our own Error.
#pragma once

#include <cfenv>
#include <exception>
#include <string>
#include <string_view>

#include "dllm/error.hpp"
#include "dllm_sdk/plugin_abi.h"

namespace dllm {

/// One line of valid UTF-8 without control characters: white-space controls become a space, other
/// control characters and ill-formed bytes '?'. It goes to terminals and into JSON.
std::string printable(std::string_view bytes);

/// Cuts "fact. Fix: fix." in two: `fact` keeps the first part, the second is returned, each without
/// its full stop. Empty where there is no remedy in it.
std::string split_fix(std::string& fact);

/// An error buffer to hand to a plugin; its text() is safe whatever the plugin left in it.
class ErrorBuffer {
 public:
  ErrorBuffer() { error_.struct_size = sizeof error_; }
  dllm_error* get() noexcept { return &error_; }
  /// Up to the first zero or the end of the buffer.
  std::string text() const;

 private:
  dllm_error error_{};
};

/// The Error for a failed call: bad_usage for DLLM_BAD_OPTION, else bad_plugin. A message that
/// already says "fact. Fix: fix" keeps its parts. `owner` is "sampler llada", `call` the function's
/// name.
Error plugin_error(dllm_status status, const ErrorBuffer& buffer, std::string_view owner,
                   std::string_view call);

/// The Error for a plugin that broke its contract in `call`: "plan() returned 3 positions and no
/// list".
Error contract_error(std::string fact, std::string_view owner);

/// Rounding, flushing of denormals and traps as they were, once foreign code returns: a plugin
/// built with -ffast-math changes them for the thread that loads it, and with them the model's
/// numbers.
class KeptFloatingPoint {
 public:
  KeptFloatingPoint() noexcept { std::fegetenv(&kept_); }
  KeptFloatingPoint(const KeptFloatingPoint&) = delete;
  KeptFloatingPoint& operator=(const KeptFloatingPoint&) = delete;
  ~KeptFloatingPoint() { std::fesetenv(&kept_); }

 private:
  std::fenv_t kept_{};
};

/// What an escaped exception says, safe to show; what() of a foreign one may be null.
std::string message_of(const std::exception& error);

/// Runs `call` of a plugin. Exceptions must not cross the C boundary; where one does, it becomes an
/// Error (bad_plugin) that names the call.
template <typename Call>
auto guarded(std::string_view owner, std::string_view name, Call&& call) {
  const KeptFloatingPoint kept;
  try {
    return call();
  } catch (const std::exception& e) {
    throw contract_error(std::string(name) + "() let an exception escape: " + message_of(e), owner);
  } catch (...) {
    throw contract_error(std::string(name) + "() let an exception of unknown type escape", owner);
  }
}

/// Runs a plugin's clean-up from a destructor.
template <typename Call>
void end_quietly(Call&& call) noexcept {
  const KeptFloatingPoint kept;
  try {
    call();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // There is nobody left to tell, and it must not end the process.
  }
}

}  // namespace dllm
