// The Error that a call throws, for tests of what it says.
//
//   const Error error = error_of([&] { GgufFile::open(path); });
//   EXPECT_EQ(error.where(), "--plugin-dir");
//   EXPECT_THAT(message_of([&] { ... }, ErrorCode::bad_file), HasSubstr("..."));
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "dllm/error.hpp"

namespace dllm::test {

/// Fails the test where `call` throws none; anything but an Error goes on.
template <typename Call>
Error error_of(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::internal, "nothing was thrown");
}

/// Fact, place and fix in one line, of an Error that must have this code.
template <typename Call>
std::string message_of(Call&& call, ErrorCode code) {
  const Error error = error_of(std::forward<Call>(call));
  EXPECT_EQ(error.code(), code) << error.what();
  return error.what();
}

}  // namespace dllm::test
