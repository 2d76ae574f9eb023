// attention: bidirectional softmax attention per sequence and head, with online softmax over blocks
// of keys, so nothing of size length x length is stored.
//
// An item is (sequence, head, block of queries). Items of one head follow each other, and the
// thread that starts one copies the head's keys and values into panels of its own, whose columns
// lie side by side, so that they are read from a near cache from then on. An item walks the blocks
// of keys in order: scores, softmax step, weighted values (attention_math.inl, or
// attention_tiles.inl with AMX). A query's result depends on its own row and its sequence's keys in
// blocks from the sequence's first key, never on the other queries.
#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {

const AttentionMath& CpuBackend::attention_math() const {
  return choose_attention(isa_, multiplier_.mode, imported_.values);
}

void CpuBackend::attention(TensorView q, TensorView k, TensorView v, const AttentionSpans& spans,
                           const AttentionParams& params, TensorView out) {
  const std::span<const AttentionSpan> list = static_cast<const CpuAttentionSpans&>(spans).spans();
  DLLM_ASSERT(params.n_kv_heads > 0 && params.n_heads % params.n_kv_heads == 0);
  DLLM_ASSERT(q.n_cols == params.n_heads * params.head_dim && out.n_cols == q.n_cols);
  DLLM_ASSERT(k.n_cols == params.n_kv_heads * params.head_dim && v.n_cols == k.n_cols);
  DLLM_ASSERT(out.buffer != q.buffer && out.buffer != k.buffer && out.buffer != v.buffer);
  StageTimer timer(profile_, Stage::attention, "attention");
  for (const AttentionSpan& each : list) {
    DLLM_ASSERT(std::uint64_t{each.q_begin} + each.q_count <= out.n_rows && out.n_rows <= q.n_rows);
    DLLM_ASSERT(std::uint64_t{each.kv_begin} + each.kv_count <= k.n_rows && k.n_rows == v.n_rows);
    timer.add_float_work(4.0 * each.q_count * each.kv_count * params.n_heads * params.head_dim, 0);
  }
  attention_work_.run(attention_math(), arena_, list, params,
                      {buffer_of(q).row(0), q.n_cols, buffer_of(k).row(0), buffer_of(v).row(0),
                       k.n_cols, buffer_of(out).row(0)});
}

}  // namespace dllm::cpu
