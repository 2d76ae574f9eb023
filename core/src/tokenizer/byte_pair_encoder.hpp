// Byte-pair merging of one piece of text.
//
// A piece starts as its bytes. Again and again the adjacent pair with the lowest rank is merged,
// leftmost first, until no pair has a merge (GPT-2 `encoder.py`, `bpe`). A heap of candidates and a
// linked list of symbols make that O(n log n), whatever the length of the piece.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dllm/gguf.hpp"
#include "tokenizer/pair_table.hpp"
#include "tokenizer/vocabulary.hpp"

namespace dllm::tokenizing {

/// Thread rule: const after construction, any thread; a Scratch belongs to one thread at a time.
class BytePairEncoder {
 public:
  class Scratch {
    friend class BytePairEncoder;
    struct Node {
      std::int32_t symbol;
      std::uint32_t previous;
      std::uint32_t next;
    };
    struct Candidate {
      std::uint32_t rank;
      std::uint32_t left;  ///< node
      std::int32_t left_symbol;
      std::int32_t right_symbol;
      std::int32_t result;
    };
    std::vector<Node> nodes_;
    std::vector<Candidate> heap_;
    std::uint64_t n_candidates_ = 0;

   public:
    /// Candidate merges looked at so far: the work done, for tests of the time bound.
    std::uint64_t candidates() const { return n_candidates_; }
  };

  /// Reads `tokenizer.ggml.merges`. Throws Error (bad_file) for a merge that is no pair and for a
  /// byte that has no token. `reserved` (sorted) are ids that text must not give.
  BytePairEncoder(const GgufFile& file, const Vocabulary& vocabulary,
                  std::span<const std::int32_t> reserved, bool ignore_merges);
  BytePairEncoder(const BytePairEncoder&) = delete;
  BytePairEncoder& operator=(const BytePairEncoder&) = delete;

  /// Appends the ids of `piece`. A symbol that is no token, and one that text must not give, is
  /// written byte by byte.
  void encode(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  std::int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }

 private:
  void require_all_bytes(const GgufFile& file);
  void read_merges(const GgufFile& file);
  std::int32_t symbol_of(std::string_view bytes);
  bool is_text(std::int32_t symbol) const;
  void merge_all(Scratch& scratch) const;
  void push_candidate(Scratch& scratch, std::uint32_t left) const;
  void append_symbol(std::int32_t symbol, std::string_view bytes,
                     std::vector<std::int32_t>& ids) const;

  // A symbol is the id of a token, or size() + k for the k-th string that only merges name.
  const Vocabulary& vocabulary_;
  std::vector<bool> reserved_;  ///< by token id
  bool ignore_merges_ = false;
  std::array<std::int32_t, 256> byte_ids_{};
  std::deque<std::string> extra_;  ///< strings that are no token; a deque keeps views valid
  std::unordered_map<std::string_view, std::int32_t, KeyedHash> extra_symbols_;
  PairTable merges_;
};

}  // namespace dllm::tokenizing
