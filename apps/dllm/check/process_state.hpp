// What a plugin shares with the whole process, to see whether it leaves that alone.
//
//   const ProcessState before = process_state();
//   ...                                       // foreign code
//   changed_state(before, process_state());   // "the working folder, from /a to /b"; else empty
//
// Thread rule: any thread; signal masks are the calling thread's.
#pragma once

#include <map>
#include <string>

namespace dllm::cli {

/// Name of each thing, and its value as text.
using ProcessState = std::map<std::string, std::string>;

/// Locale, environment, working folder, umask, alarm, signal mask, each signal's handler, number of
/// threads.
ProcessState process_state();
/// The first thing that differs, with both values; empty where none does.
std::string changed_state(const ProcessState& before, const ProcessState& after);

/// Takes what is written to standard output while it lives, through stdio or the descriptor.
class CapturedOutput {
 public:
  /// Throws Error (resource) where the system gives no file for it.
  CapturedOutput();
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput();

  /// So far; the start of it where it is long.
  std::string text() const;

 private:
  int file_ = -1;
  int standard_output_ = -1;
};

}  // namespace dllm::cli
