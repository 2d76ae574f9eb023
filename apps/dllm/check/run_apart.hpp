// Running foreign code where it can do no harm: in a child process, with a time limit.
//
//   const auto work = [] { ...; return std::string("what it found"); };
//   Apart result = run_apart(work, std::chrono::seconds(20));
//
// The child is a copy of this process, so everything it reaches is there; nothing it changes comes
// back but its text. Thread rule: call while this process has one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace dllm::cli {

struct Apart {
  bool returned = false;
  std::string text;  ///< what the work returned; else how it ended: "it crashed (SIGSEGV)"
};

/// Throws Error (resource) where the system gives no child process.
Apart run_apart(const std::function<std::string()>& work, std::chrono::seconds limit);

}  // namespace dllm::cli
