// Attention of a packed batch, whatever multiplies (AttentionMath).
//
//   AttentionWork work(n_threads);
//   work.reserve(math, {.n_keys = 1024, .n_sequences = 4, .head_dim = 128});
//   work.run(math, arena, spans, params, {q, q_cols, k, v, kv_cols, out});
//
// Thread rule: one thread per object, which owns the memory of a run; inside, Arena::for_each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arena.hpp"
#include "dllm/backend.hpp"
#include "isa.hpp"
#include "kernels.hpp"
#include "matmul.hpp"
#include "memory.hpp"

namespace dllm::cpu {

/// How a backend attends: as precisely as its matrices multiply. With BF16 operands where the
/// instruction set can and every product rounds its input, to int8 or BF16; in f32 where one
/// matrix, of F32 or F16, is multiplied in f32 (`f32_products`), and in every mode but fast.
const AttentionMath& choose_attention(const Isa& isa, ProductMode mode, bool f32_products);

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
  explicit AttentionWork(unsigned n_threads) : slots_(n_threads) {}

  struct Limits {
    std::uint32_t n_keys;  // of one span
    std::uint32_t n_sequences;
    std::uint32_t head_dim;
  };
  /// What run() will use within these limits, so that it allocates nothing.
  void reserve(const AttentionMath& math, const Limits& limits);
  /// Rows of `spans` must exist. `arena` has at most n_threads.
  void run(const AttentionMath& math, Arena& arena, std::span<const AttentionSpan> spans,
           const AttentionParams& params, const AttentionRows& rows);

 private:
  // One thread's memory. Its panels are of one head of keys and values of one span.
  struct alignas(kAlignment) Slot {
    AlignedMemory panels;
    AlignedMemory scratch;
    std::uint64_t packed = 0;
  };
  void make_room(const AttentionMath& math, std::uint32_t n_keys, std::uint32_t head_dim);

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> first_blocks_;  // of queries: of each span, and the end
};

}  // namespace dllm::cpu
