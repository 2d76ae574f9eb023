// What a program of conformance tests holds to the oracles. Tests that take subjects are compiled
// into the program of every backend; each program says what its subjects are (cpu_subjects.cpp
// here, cuda_support.cpp in tests/backend_cuda).
//
//   class RmsNorm : public SubjectsTest {};
//   TEST_F(RmsNorm, AgreesWithTheOracle) {
//     for (const Subject& subject : subjects()) { const auto backend = subject.make(); ... }
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dllm/backend.hpp"

namespace dllm::test {

/// A way to run a backend: an instruction set of the CPU's, or a GPU.
struct Subject {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
  /// A buffer's values to `read_error` of a row's largest.
  std::function<std::vector<float>(Backend&, TensorView)> read;
  double read_error = 0;
  /// Attention multiplies binary16 operands (a power of two a row), not f32.
  bool half_operands = false;
  /// Attention multiplies BF16 operands.
  bool brain_operands = false;
};
const std::vector<Subject>& subjects();
/// Those, and other ways to attend.
std::vector<Subject> attention_subjects();
/// Why there are none on this machine; empty where there are.
std::string no_subjects_reason();

/// Skips with that reason.
class SubjectsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_subjects_reason(); !reason.empty()) GTEST_SKIP() << reason;
    ASSERT_FALSE(subjects().empty());
  }
};

}  // namespace dllm::test
