// head_stats of rows that need their logits whole: top_p, top_k and top lists.
#pragma once

#include <cstdint>

#include "head_rows.hpp"

namespace dllm::cpu {

/// An id with its logit, as sorted here: largest logit first, ties by lowest id.
struct Candidate {
  float logit;
  std::int32_t id;
};

/// Whether the request cannot be answered from tile partials.
bool needs_whole_row(const StatsRequest& request, std::uint32_t n_vocab);

/// Rows stored at a time (guidance pairs count), and the memory for at most n_rows and their pairs.
std::uint32_t stored_rows(std::uint32_t n_vocab);
std::uint64_t stored_bytes(std::uint32_t n_rows, std::uint32_t n_vocab);

/// Answers one row. `logits` [n_vocab] are after guidance and get overwritten; `work` holds n_vocab
/// candidates.
void whole_row_stats(const Kernels& kernels, const HeadRow& row, float* logits,
                     std::uint32_t n_vocab, Candidate* work, HeadStats& stats);

}  // namespace dllm::cpu
