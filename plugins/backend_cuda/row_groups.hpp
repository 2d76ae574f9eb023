// How 64-row blocks of weights are shared out among tiles.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dllm::cuda {

/// Tiles of weight rows: the first n_larger have blocks + 1 blocks each, the others `blocks`.
///
/// Where a multiprocessor takes several tiles, all have work in the last turn, too: 592 blocks are
/// not 132 tiles of three and then 66, but 264 of three or two, which take five sixths of the time.
struct RowGroups {
  std::uint32_t n = 0;
  std::uint32_t blocks = 0;
  std::uint32_t n_larger = 0;
  bool is_even = false;  // shared out so; else turns() counts `most` for each

  /// `most`: of a tile. `n_others`: tiles that each of them stands for (of input rows, of parts).
  RowGroups(std::uint32_t n_blocks, std::uint32_t most, std::uint32_t n_others,
            std::uint32_t n_multiprocessors)
      : n(over(n_blocks, most)), is_even(n_others == 1) {
    if (is_even && n > n_multiprocessors)
      n = std::min(over(n, n_multiprocessors) * n_multiprocessors, n_blocks);
    blocks = n_blocks / n;
    n_larger = n_blocks % n;
  }

  /// Blocks that a multiprocessor takes, one after the other.
  std::uint64_t turns(std::uint32_t most, std::uint32_t n_others,
                      std::uint32_t n_multiprocessors) const {
    const std::uint64_t waves = over(n * n_others, n_multiprocessors);
    return is_even ? waves * blocks + over(n_larger, n_multiprocessors) : waves * most;
  }

 private:
  static std::uint32_t over(std::uint32_t n, std::uint32_t by) { return (n + by - 1) / by; }
};

}  // namespace dllm::cuda
