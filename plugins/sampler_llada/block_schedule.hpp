// How many positions LLaDA commits when: masked positions cut into blocks, steps shared among
// blocks, a block's positions shared among its steps.
#pragma once

#include <cstdint>

namespace llada {

/// Share `index` of `total` cut into `parts` as evenly as integers allow, the larger shares first
/// (LLaDA generate.py, get_num_transfer_tokens: total div parts, plus one while index < total mod
/// parts).
constexpr std::uint32_t even_share(std::uint32_t total, std::uint32_t parts, std::uint32_t index) {
  return total / parts + (index < total % parts ? 1u : 0u);
}

/// Blocks of `block_length` that `n` positions need; the last may be short.
constexpr std::uint32_t block_count(std::uint32_t n, std::uint32_t block_length) {
  return n / block_length + (n % block_length != 0 ? 1u : 0u);
}

}  // namespace llada
