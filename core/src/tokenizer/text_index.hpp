// Hash table from a token's bytes to its id.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/keyed_hash.hpp"

namespace dllm::tokenizing {

/// Open addressing over (hash, id): the bytes themselves, which `bytes_of(id)` gives, are read only
/// where the hash is the same. Loading a vocabulary is mostly such lookups. Keyed, as PairTable.
class TextIndex {
 public:
  explicit TextIndex(std::size_t n_texts) : slots_(std::bit_ceil(2 * n_texts + 2)) {}

  /// The id of `bytes`, or -1.
  template <typename BytesOf>
  std::int32_t find(std::string_view bytes, const BytesOf& bytes_of) const {
    return slots_[position(bytes, bytes_of)].id;
  }

  /// Keeps the first of equal texts. At most the n_texts of the constructor.
  template <typename BytesOf>
  void insert(std::int32_t id, const BytesOf& bytes_of) {
    const std::string_view bytes = bytes_of(id);
    Slot& slot = slots_[position(bytes, bytes_of)];
    if (slot.id < 0) slot = {tag_of(hash_of(bytes)), id};
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::int32_t id = -1;
  };

  static std::size_t hash_of(std::string_view bytes) { return keyed_hash(bytes); }
  static std::uint32_t tag_of(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  // Of the text's slot, or of the free one where it would go.
  template <typename BytesOf>
  std::size_t position(std::string_view bytes, const BytesOf& bytes_of) const {
    const std::size_t hash = hash_of(bytes);
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].id >= 0 &&
           (slots_[at].tag != tag_of(hash) || bytes_of(slots_[at].id) != bytes)) {
      at = (at + 1) & mask;
    }
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace dllm::tokenizing
