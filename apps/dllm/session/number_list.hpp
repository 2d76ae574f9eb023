// Lists of numbers as --tokens, --decode and --rows take them: "1,2,3", "1 2 3", rows also "0-7".
// Thread rule: pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

/// Token ids, at least 0; an empty text is an empty list. Throws Error (bad_usage) naming `option`
/// and the part that is no number.
std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& option);

/// Row numbers below `n_rows` in the order given; "a-b" stands for a to b. Same errors.
std::vector<std::uint32_t> parse_rows(std::string_view text, std::uint32_t n_rows,
                                      const std::string& option);

}  // namespace dllm::cli
