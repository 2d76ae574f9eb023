// Errors that reach a person.
//
//   throw dllm::Error(ErrorCode::bad_file, "tensor ends at byte 900, the file has 512",
//                     "model.gguf, tensor output.weight", "download the file again");
//
// Thread rule: an Error is a value; catch it anywhere.
#pragma once

#include <stdexcept>
#include <string>

namespace dllm {

/// What kind of fault it is; decides the exit status of the command line.
enum class ErrorCode {
  bad_usage,    ///< an option, key or request the user can correct (exit status 2)
  bad_file,     ///< a model file that lies, is damaged or cannot be read
  unsupported,  ///< well formed, but not something this build can do
  bad_plugin,   ///< a plugin that broke its contract
  resource,     ///< not enough memory, no device, disk full
  interrupted,  ///< the user asked to stop
  internal      ///< our own mistake
};

/// One fault in three parts: the fact with both values, the place, the next thing to do.
/// `what()` joins them as "what (where). Fix: fix", leaving out empty parts.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string fact, std::string where = {}, std::string fix = {});

  ErrorCode code() const noexcept { return code_; }
  const std::string& fact() const noexcept { return fact_; }
  const std::string& where() const noexcept { return where_; }
  const std::string& fix() const noexcept { return fix_; }

 private:
  ErrorCode code_;
  std::string fact_;
  std::string where_;
  std::string fix_;
};

/// Throws ErrorCode::internal. For our own mistakes only, never for input.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace dllm

#define DLLM_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::dllm::assertion_failed(#condition, __FILE__, __LINE__))
