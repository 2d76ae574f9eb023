// attention: bidirectional softmax attention per sequence and head, with online softmax over blocks
// of keys, so nothing of size length x length is stored.
//
// First region: keys (transposed) and values of every sequence, kv head and key block are copied
// into panels whose columns lie side by side. Second region: an item is (sequence, head, block of
// queries); it walks the key blocks in order: scores, softmax step, weighted values
// (attention_math.inl). Items of one head follow each other, so that its panels are read from a
// cache again. A query's result depends on its own row and its sequence's keys in blocks of
// kKeyBlock from the sequence's first key, never on the other queries.
#include <algorithm>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint32_t kMostLanes = 16;  // padding of a head, whatever the instruction set

std::uint32_t blocks(std::uint32_t count, std::uint32_t size) { return (count + size - 1) / size; }

// Floats of a (sequence, kv head, key block) panel: keys, then values.
std::uint64_t panel_floats(std::uint32_t head_dim) {
  return (head_dim + round_up(head_dim, kMostLanes)) * kKeyBlock;
}

AttentionScratch scratch_at(float* memory, std::uint32_t head_dim) {
  AttentionScratch work{};
  work.scores = memory;
  work.sums = work.scores + kQueryBlock * kKeyBlock;
  work.queries = work.sums + kQueryBlock * kMostLanes;
  work.out = work.queries + kQueryBlock * round_up(head_dim, kMostLanes);
  work.max = work.out + kQueryBlock * round_up(head_dim, kMostLanes);
  return work;
}

// The blocks of a list of spans: block b of span s is number firsts[s] + b, and with `n_heads`
// items a block those of a span lie side by side, head after head.
struct Place {
  std::uint32_t span;
  std::uint32_t head;
  std::uint32_t block;
};
Place place_of(std::span<const std::uint32_t> firsts, std::uint32_t n_heads, std::uint32_t item) {
  const auto after = std::upper_bound(firsts.begin(), firsts.end(), item / n_heads);
  const auto span = static_cast<std::uint32_t>(after - firsts.begin() - 1);
  const std::uint32_t n_blocks = firsts[span + 1] - firsts[span];
  const std::uint32_t local = item - firsts[span] * n_heads;
  return {span, local / n_blocks, local % n_blocks};
}

}  // namespace

std::uint64_t CpuBackend::attention_thread_floats(std::uint32_t head_dim) const {
  return std::uint64_t{kQueryBlock} *
         (kKeyBlock + kMostLanes + 2 * round_up(head_dim, kMostLanes) + 1);
}

std::uint64_t CpuBackend::attention_panel_floats(std::uint32_t n_key_blocks,
                                                 std::uint32_t n_kv_heads,
                                                 std::uint32_t head_dim) const {
  return std::uint64_t{n_key_blocks} * n_kv_heads * panel_floats(head_dim);
}

void CpuBackend::attention(TensorView q, TensorView k, TensorView v, const AttentionSpans& spans,
                           const AttentionParams& params, TensorView out) {
  const std::span<const AttentionSpan> list = static_cast<const CpuAttentionSpans&>(spans).spans();
  const std::uint32_t head_dim = params.head_dim;
  DLLM_ASSERT(params.n_kv_heads > 0 && params.n_heads % params.n_kv_heads == 0);
  DLLM_ASSERT(q.n_cols == params.n_heads * head_dim && out.n_cols == q.n_cols);
  DLLM_ASSERT(k.n_cols == params.n_kv_heads * head_dim && v.n_cols == k.n_cols);
  DLLM_ASSERT(out.buffer != q.buffer && out.buffer != k.buffer && out.buffer != v.buffer);
  StageTimer timer(profile_, Stage::attention, "attention");
  for (const AttentionSpan& each : list)
    timer.add_float_work(4.0 * each.q_count * each.kv_count * params.n_heads * head_dim, 0);

  // attention_items_: first key block of each span, then first query block of each span.
  const auto n_spans = static_cast<std::uint32_t>(list.size());
  attention_items_.assign(std::size_t{2} * (n_spans + 1), 0);
  const std::span<std::uint32_t> first_keys(attention_items_.data(), n_spans + 1);
  const std::span<std::uint32_t> first_queries(first_keys.data() + n_spans + 1, n_spans + 1);
  for (std::uint32_t s = 0; s < n_spans; ++s) {
    DLLM_ASSERT(std::uint64_t{list[s].q_begin} + list[s].q_count <= out.n_rows &&
                out.n_rows <= q.n_rows);
    DLLM_ASSERT(std::uint64_t{list[s].kv_begin} + list[s].kv_count <= k.n_rows &&
                k.n_rows == v.n_rows);
    first_keys[s + 1] = first_keys[s] + blocks(list[s].kv_count, kKeyBlock);
    first_queries[s + 1] = first_queries[s] + blocks(list[s].q_count, kQueryBlock);
  }
  const std::uint32_t n_key_blocks = first_keys[n_spans];
  grow(attention_panels_,
       attention_panel_floats(n_key_blocks, params.n_kv_heads, head_dim) * sizeof(float),
       "attention panels");
  for (auto& each : scratch_)
    grow(each->attention, attention_thread_floats(head_dim) * sizeof(float), "attention scratch");
  const std::uint64_t panel = panel_floats(head_dim);
  auto* panels = attention_panels_.as<float>();

  const AttentionMath& math = kernels_.rows.attention;
  arena_.for_each(n_key_blocks * params.n_kv_heads, 1, [&](std::uint32_t item, unsigned) {
    const Place at = place_of(first_keys, params.n_kv_heads, item);
    const std::uint32_t first = at.block * kKeyBlock;
    const std::uint32_t n = std::min(kKeyBlock, list[at.span].kv_count - first);
    const std::uint32_t row = list[at.span].kv_begin + first;
    const std::uint32_t col = at.head * head_dim;
    float* to = panels + item * panel;
    math.pack_keys(buffer_of(k).row(row) + col, k.n_cols, n, head_dim, to);
    math.pack_values(buffer_of(v).row(row) + col, v.n_cols, n, head_dim,
                     to + std::uint64_t{head_dim} * kKeyBlock);
  });

  const std::uint32_t n_items = first_queries[n_spans] * params.n_heads;
  arena_.for_each(n_items, 1, [&](std::uint32_t item, unsigned slot) {
    const Place at = place_of(first_queries, params.n_heads, item);
    const AttentionSpan& span = list[at.span];
    const std::uint32_t first = at.block * kQueryBlock;
    const std::uint32_t row = span.q_begin + first;
    const std::uint32_t col = at.head * head_dim;
    const std::uint32_t kv_head = at.head * params.n_kv_heads / params.n_heads;
    const std::uint32_t n_blocks = first_keys[at.span + 1] - first_keys[at.span];
    const std::uint64_t first_panel =
        std::uint64_t{first_keys[at.span]} * params.n_kv_heads + kv_head * n_blocks;
    const AttentionQueries queries{buffer_of(q).row(row) + col, q.n_cols,
                                   std::min(kQueryBlock, span.q_count - first), head_dim,
                                   params.scale};
    math.attend(queries, {panels + first_panel * panel, panel, span.kv_count},
                scratch_at(scratch(slot).attention.as<float>(), head_dim),
                buffer_of(out).row(row) + col);
  });
}

}  // namespace dllm::cpu
