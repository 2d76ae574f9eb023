#include "attention_work.hpp"

#include <algorithm>

namespace dllm::cpu {
namespace {

std::uint32_t blocks(std::uint32_t count, std::uint32_t size) { return (count + size - 1) / size; }

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

void AttentionWork::make_room(std::uint32_t n_panels, std::uint32_t head_dim) {
  grow(panels_, n_panels * math_.panel_floats(head_dim) * sizeof(float), "attention panels");
  for (AlignedMemory& each : scratch_)
    grow(each, math_.scratch_floats(head_dim) * sizeof(float), "attention scratch");
}

void AttentionWork::reserve(const Limits& limits) {
  const std::uint32_t n_blocks = limits.n_tokens / math_.key_block + limits.n_sequences;
  make_room(n_blocks * limits.n_heads, limits.head_dim);
  first_keys_.reserve(limits.n_sequences + 1);
  first_queries_.reserve(limits.n_sequences + 1);
}

void AttentionWork::list_blocks(std::span<const AttentionSpan> spans) {
  first_keys_.assign(1, 0);
  first_queries_.assign(1, 0);
  for (const AttentionSpan& span : spans) {
    first_keys_.push_back(first_keys_.back() + blocks(span.kv_count, math_.key_block));
    first_queries_.push_back(first_queries_.back() + blocks(span.q_count, kQueryBlock));
  }
}

void AttentionWork::run(Arena& arena, std::span<const AttentionSpan> spans,
                        const AttentionParams& params, const AttentionRows& rows) {
  const std::uint32_t head_dim = params.head_dim;
  list_blocks(spans);
  const std::uint32_t n_panels = first_keys_.back() * params.n_kv_heads;
  make_room(n_panels, head_dim);
  const std::uint64_t panel = math_.panel_floats(head_dim);
  auto* const panels = panels_.as<float>();

  arena.for_each(n_panels, 1, [&](std::uint32_t item, unsigned) {
    const Place at = place_of(first_keys_, params.n_kv_heads, item);
    const std::uint32_t first = at.block * math_.key_block;
    const std::uint32_t n = std::min(math_.key_block, spans[at.span].kv_count - first);
    const std::uint64_t begin = (std::uint64_t{spans[at.span].kv_begin} + first) * rows.kv_cols +
                                at.head * std::uint64_t{head_dim};
    math_.pack({rows.k + begin, rows.v + begin, rows.kv_cols, n, head_dim}, panels + item * panel);
  });

  const std::uint32_t n_items = first_queries_.back() * params.n_heads;
  arena.for_each(n_items, 1, [&](std::uint32_t item, unsigned slot) {
    const Place at = place_of(first_queries_, params.n_heads, item);
    const AttentionSpan& span = spans[at.span];
    const std::uint32_t first = at.block * kQueryBlock;
    const std::uint64_t begin =
        (std::uint64_t{span.q_begin} + first) * rows.q_cols + at.head * std::uint64_t{head_dim};
    const std::uint32_t kv_head = at.head * params.n_kv_heads / params.n_heads;
    const std::uint32_t n_blocks = first_keys_[at.span + 1] - first_keys_[at.span];
    const std::uint64_t first_panel =
        std::uint64_t{first_keys_[at.span]} * params.n_kv_heads + kv_head * n_blocks;
    const AttentionQueries queries{rows.q + begin, rows.q_cols,
                                   std::min(kQueryBlock, span.q_count - first), head_dim,
                                   params.scale};
    math_.attend(queries, {panels + first_panel * panel, panel, span.kv_count},
                 scratch_[slot].as<float>(), rows.out + begin);
  });
}

}  // namespace dllm::cpu
