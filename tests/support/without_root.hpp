// Root may read every file: a test of refused permissions becomes nobody for the attempt.
#pragma once

#include <unistd.h>

namespace dllm::test {

/// While it lives, the process acts as the user nobody where it was root; others stay who they are.
class WithoutRoot {
 public:
  WithoutRoot() : was_root_(::geteuid() == 0), done_(!was_root_ || ::seteuid(65534) == 0) {}
  WithoutRoot(const WithoutRoot&) = delete;
  WithoutRoot& operator=(const WithoutRoot&) = delete;
  ~WithoutRoot() {
    if (was_root_ && done_ && ::seteuid(0) != 0) _exit(1);  // later tests would lie
  }

  /// False where the system does not let go of root.
  bool done() const { return done_; }

 private:
  bool was_root_;
  bool done_;
};

}  // namespace dllm::test
