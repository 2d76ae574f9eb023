// A call that must throw Error (bad_usage) whose message holds certain parts.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "dllm/error.hpp"
#include "error_of.hpp"

namespace dllm::cli {

inline void expect_refusal(const std::function<void()>& call,
                           const std::vector<std::string>& parts) {
  const Error error = test::error_of(call);
  EXPECT_EQ(error.code(), ErrorCode::bad_usage) << error.what();
  EXPECT_FALSE(error.fix().empty()) << error.what();
  for (const std::string& part : parts) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "'" << part << "' is not in: " << error.what();
  }
}

}  // namespace dllm::cli
