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

const AttentionMath& choose_attention(const Isa& isa, ProductMode mode, bool f32_products) {
  const bool rounded = mode == ProductMode::fast && !f32_products;
  return rounded && isa.attention ? *isa.attention : isa.kernels->rows.attention;
}

void AttentionWork::make_room(const AttentionMath& math, std::uint32_t n_keys,
                              std::uint32_t head_dim) {
  const std::uint64_t n_panels = blocks(n_keys, math.key_block);
  for (Slot& each : slots_) {
    grow(each.panels, n_panels * math.panel_floats(head_dim) * sizeof(float), "attention panels");
    grow(each.scratch, math.scratch_floats(head_dim) * sizeof(float), "attention scratch");
  }
}

void AttentionWork::reserve(const AttentionMath& math, const Limits& limits) {
  make_room(math, limits.n_keys, limits.head_dim);
  first_blocks_.reserve(limits.n_sequences + 1);
}

void AttentionWork::run(const AttentionMath& math, Arena& arena,
                        std::span<const AttentionSpan> spans, const AttentionParams& params,
                        const AttentionRows& rows) {
  const std::uint32_t head_dim = params.head_dim;
  std::uint32_t most_keys = 0;
  first_blocks_.assign(1, 0);
  for (const AttentionSpan& span : spans) {
    first_blocks_.push_back(first_blocks_.back() + blocks(span.q_count, math.query_block));
    most_keys = std::max(most_keys, span.kv_count);
  }
  make_room(math, most_keys, head_dim);
  constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  for (Slot& each : slots_) each.packed = kNothing;
  const std::uint64_t panel = math.panel_floats(head_dim);

  const auto pack = [&](const AttentionSpan& span, std::uint32_t kv_head, float* panels) {
    for (std::uint32_t key = 0; key < span.kv_count; key += math.key_block, panels += panel) {
      const std::uint64_t begin =
          (std::uint64_t{span.kv_begin} + key) * rows.kv_cols + kv_head * std::uint64_t{head_dim};
      const std::uint32_t n = std::min(math.key_block, span.kv_count - key);
      math.pack({rows.k + begin, rows.v + begin, rows.kv_cols, n, head_dim}, panels);
    }
  };
  // A thread's items mostly follow each other, so it packs a head once.
  arena.for_each(first_blocks_.back() * params.n_heads, 1, [&](std::uint32_t item, unsigned n) {
    const Place at = place_of(first_blocks_, params.n_heads, item);
    const AttentionSpan& span = spans[at.span];
    Slot& slot = slots_[n];
    const std::uint32_t kv_head = at.head * params.n_kv_heads / params.n_heads;
    const std::uint64_t wanted = std::uint64_t{at.span} * params.n_kv_heads + kv_head;
    if (slot.packed != wanted) pack(span, kv_head, slot.panels.as<float>());
    slot.packed = wanted;
    const std::uint32_t first = at.block * math.query_block;
    const std::uint64_t begin =
        (std::uint64_t{span.q_begin} + first) * rows.q_cols + at.head * std::uint64_t{head_dim};
    const AttentionQueries queries{rows.q + begin, rows.q_cols,
                                   std::min(math.query_block, span.q_count - first), head_dim,
                                   params.scale};
    math.attend(queries, {slot.panels.as<float>(), panel, span.kv_count}, slot.scratch.as<float>(),
                rows.out + begin);
  });
}

}  // namespace dllm::cpu
