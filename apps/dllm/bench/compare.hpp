// dllm bench --compare: this result against an older one.
//
//   const Json old = read_bench_result("old.json", "--compare, command line");
//   const Json comparison = compare_json(old, "old.json", bench_json(result));
//
// Thread rule: pure functions.
#pragma once

#include <string>

#include "output/json.hpp"

namespace dllm::cli {

/// Throws Error (bad_usage) naming `origin` for a file that cannot be read, is no JSON, or is no
/// result of `dllm bench --json`: what is missing is named.
Json read_bench_result(const std::string& path, const std::string& origin);

/// `now` and `old` are results. Ratios are now / old, so below 1 is faster. Noise is half the
/// larger of both ranges, relative to its median; where the ranges overlap, the medians differ
/// by no larger factor than the noise, or a side has but one repeat, no verdict is given; of the
/// latter the noise is null.
Json compare_json(const Json& old, const std::string& path, const Json& now);
std::string compare_text(const Json& comparison);

}  // namespace dllm::cli
