// Expecting a dllm::Error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "dllm/error.hpp"
#include "error_of.hpp"

namespace dllm::test {

/// Runs `action` and expects an Error of this code whose message matches; it must say what to do,
/// too.
template <typename Action, typename Matcher>
void expect_error(const Action& action, ErrorCode code, const Matcher& message) {
  const Error error = error_of(action);
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_THAT(std::string(error.what()), message);
  EXPECT_FALSE(error.where().empty()) << error.what();
  EXPECT_FALSE(error.fix().empty()) << error.what();
}

}  // namespace dllm::test
