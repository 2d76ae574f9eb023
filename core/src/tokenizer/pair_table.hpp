// Hash table from a pair of symbols to the merge of that pair.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/keyed_hash.hpp"

namespace dllm::tokenizing {

struct Merge {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t rank = kNone;  ///< position in `tokenizer.ggml.merges`; lower goes first
  std::int32_t result = -1;    ///< symbol
  bool exists() const { return rank != kNone; }
};

/// Open addressing with linear probing: a lookup, hit or miss, touches about one cache line. Keyed,
/// so that no file can hold merges that all meet in one place.
class PairTable {
 public:
  explicit PairTable(std::size_t n_pairs) : slots_(std::bit_ceil(2 * n_pairs + 2)) {
    shift_ = 64 - std::countr_zero(slots_.size());
  }

  /// Keeps the first merge of a pair that is inserted twice. At most the n_pairs of the
  /// constructor.
  void insert(std::int32_t left, std::int32_t right, Merge merge) {
    Slot& slot = slots_[position(key_of(left, right))];
    if (!slot.merge.exists()) slot = {key_of(left, right), merge};
  }

  Merge find(std::int32_t left, std::int32_t right) const {
    return slots_[position(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }

  // Two products, the first with a secret number: its low bits are weak, so its high ones are
  // folded into them before the second (Fibonacci hashing), whose high bits choose the slot.
  std::uint64_t hash_of(std::uint64_t key) const {
    const std::uint64_t mixed = (key ^ key_.first) * (key_.second | 1);
    return (mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15u;
  }

  // Of the key's slot, or of the free one where it would go.
  std::size_t position(std::uint64_t key) const {
    std::size_t at = hash_of(key) >> shift_;
    while (slots_[at].merge.exists() && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
  HashKey key_ = hash_key();
  int shift_ = 0;
};

}  // namespace dllm::tokenizing
