// Attention of a packed batch, whatever multiplies (AttentionMath).
//
//   AttentionWork work(math, n_threads);
//   work.reserve({.n_keys = 1024, .n_sequences = 4, .head_dim = 128});
//   work.run(arena, spans, params, {q, q_cols, k, v, kv_cols, out});
//
// Thread rule: one thread per object, which owns the memory of a run; inside, Arena::for_each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arena.hpp"
#include "dllm/backend.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace dllm::cpu {

/// Row-major [rows][cols]; out has q's columns and is none of the others.
struct AttentionRows {
  const float* q;
  std::uint64_t q_cols;
  const float* k;
  const float* v;
  std::uint64_t kv_cols;
  float* out;
};

class AttentionWork {
 public:
  AttentionWork(const AttentionMath& math, unsigned n_threads) : math_(math), slots_(n_threads) {}

  struct Limits {
    std::uint32_t n_keys;  // of one span
    std::uint32_t n_sequences;
    std::uint32_t head_dim;
  };
  /// What run() will use within these limits, so that it allocates nothing.
  void reserve(const Limits& limits);
  /// Rows of `spans` must exist. `arena` has at most n_threads.
  void run(Arena& arena, std::span<const AttentionSpan> spans, const AttentionParams& params,
           const AttentionRows& rows);

 private:
  // One thread's memory. Its panels are of one head of keys and values of one span.
  struct alignas(kAlignment) Slot {
    AlignedMemory panels;
    AlignedMemory scratch;
    std::uint64_t packed = 0;
  };
  void make_room(std::uint32_t n_keys, std::uint32_t head_dim);

  const AttentionMath& math_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> first_blocks_;  // of queries: of each span, and the end
};

}  // namespace dllm::cpu
