// attention: bidirectional softmax attention per sequence and head, with online softmax over blocks
// of keys, so nothing of size length x length is stored.
//
// First region: keys (transposed) and values of every sequence, kv head and key block are copied
// into panels whose columns lie side by side. Second region: an item is (sequence, head, block of
// queries); it walks the key blocks in order: scores, softmax step, weighted values. A query's
// result depends on its own row and its sequence's keys in blocks of kKeyBlock from the sequence's
// first key, never on the other queries.
#include <algorithm>
#include <cstring>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint32_t kQueryBlock = 32;

std::uint32_t blocks(std::uint32_t count, std::uint32_t size) { return (count + size - 1) / size; }

// What a (sequence, kv head, key block) panel holds: keys [head_dim][kKeyBlock], then values
// [kKeyBlock][padded head_dim].
struct PanelShape {
  std::uint32_t head_dim;
  std::uint32_t padded_dim;
  explicit PanelShape(std::uint32_t dim)
      : head_dim(dim), padded_dim(static_cast<std::uint32_t>(round_up(dim, 8))) {}
  std::uint64_t key_floats() const { return std::uint64_t{head_dim} * kKeyBlock; }
  std::uint64_t floats() const { return key_floats() + std::uint64_t{padded_dim} * kKeyBlock; }
};

// Rows beyond n_keys stay whatever they were in `values`, which no product reads; their scores are
// computed from zeros and not used.
void fill_panel(const CpuBuffer& k, const CpuBuffer& v, std::uint32_t first_key,
                std::uint32_t n_keys, std::uint32_t first_col, const PanelShape& shape,
                float* panel) {
  float* values = panel + shape.key_floats();
  if (n_keys < kKeyBlock) std::memset(panel, 0, shape.key_floats() * sizeof(float));
  for (std::uint32_t i = 0; i < n_keys; ++i) {
    const float* key = k.row(first_key + i) + first_col;
    for (std::uint32_t d = 0; d < shape.head_dim; ++d) panel[d * kKeyBlock + i] = key[d];
    float* value = values + std::uint64_t{i} * shape.padded_dim;
    std::memcpy(value, v.row(first_key + i) + first_col, shape.head_dim * sizeof(float));
    std::fill(value + shape.head_dim, value + shape.padded_dim, 0.0f);
  }
}

// One thread's work space for a block of queries.
struct QueryScratch {
  float* queries;  // [kQueryBlock][head_dim]
  float* scores;   // [kQueryBlock][kKeyBlock]
  float* out;      // [kQueryBlock][padded_dim]
  float* max;      // [kQueryBlock]
  float* sum;      // [kQueryBlock]
  QueryScratch(float* memory, const PanelShape& shape)
      : queries(memory),
        scores(queries + kQueryBlock * shape.padded_dim),
        out(scores + kQueryBlock * kKeyBlock),
        max(out + kQueryBlock * shape.padded_dim),
        sum(max + kQueryBlock) {}
};

// One head's columns of rows [first_row, first_row + n) of q and out.
struct QueryBlock {
  std::uint32_t first_row;
  std::uint32_t n;
  std::uint32_t first_col;
};

// The panels of one sequence and kv head; from one key block to the next it is `stride` floats.
struct PanelRow {
  const float* first;
  std::uint64_t stride;
  std::uint32_t n_keys;
};

void load_queries(const CpuBuffer& q, const QueryBlock& block, const PanelShape& shape,
                  const QueryScratch& work) {
  for (std::uint32_t r = 0; r < block.n; ++r) {
    std::memcpy(work.queries + std::uint64_t{r} * shape.head_dim,
                q.row(block.first_row + r) + block.first_col, shape.head_dim * sizeof(float));
    work.max[r] = -__builtin_inff();
    work.sum[r] = 0;
  }
  std::fill_n(work.out, std::uint64_t{block.n} * shape.padded_dim, 0.0f);
}

// Online softmax: work.out becomes the weighted values of all keys, to be divided by work.sum.
void attend(const Kernels& kernels, const PanelRow& keys, std::uint32_t n_queries, float scale,
            const PanelShape& shape, const QueryScratch& work) {
  const float* panel = keys.first;
  for (std::uint32_t key = 0; key < keys.n_keys; key += kKeyBlock, panel += keys.stride) {
    const std::uint32_t n_keys = std::min(kKeyBlock, keys.n_keys - key);
    std::fill_n(work.scores, std::uint64_t{n_queries} * kKeyBlock, 0.0f);
    kernels.multiply_add(n_queries, shape.head_dim, kKeyBlock, work.queries, shape.head_dim, panel,
                         kKeyBlock, work.scores, kKeyBlock);
    for (std::uint32_t r = 0; r < n_queries; ++r) {
      const float factor = kernels.rows.softmax_step(work.scores + std::uint64_t{r} * kKeyBlock,
                                                     n_keys, scale, &work.max[r], &work.sum[r]);
      float* row = work.out + std::uint64_t{r} * shape.padded_dim;
      for (std::uint32_t d = 0; d < shape.padded_dim; ++d) row[d] *= factor;
    }
    kernels.multiply_add(n_queries, n_keys, shape.padded_dim, work.scores, kKeyBlock,
                         panel + shape.key_floats(), shape.padded_dim, work.out, shape.padded_dim);
  }
}

// Queries that see no key get zeros.
void store_queries(const QueryScratch& work, std::uint32_t n_keys, const QueryBlock& block,
                   const PanelShape& shape, CpuBuffer& out) {
  for (std::uint32_t r = 0; r < block.n; ++r) {
    float* to = out.row(block.first_row + r) + block.first_col;
    const float* from = work.out + std::uint64_t{r} * shape.padded_dim;
    for (std::uint32_t d = 0; d < shape.head_dim; ++d)
      to[d] = n_keys == 0 ? 0.0f : from[d] / work.sum[r];
  }
}

}  // namespace

std::uint64_t CpuBackend::attention_thread_floats(std::uint32_t head_dim) const {
  return std::uint64_t{kQueryBlock} * (2 * round_up(head_dim, 8) + kKeyBlock + 2);
}

void CpuBackend::attention(TensorView q, TensorView k, TensorView v, const AttentionSpans& spans,
                           const AttentionParams& params, TensorView out) {
  const std::span<const AttentionSpan> list = static_cast<const CpuAttentionSpans&>(spans).spans();
  const std::uint32_t head_dim = params.head_dim;
  DLLM_ASSERT(params.n_kv_heads > 0 && params.n_heads % params.n_kv_heads == 0);
  DLLM_ASSERT(q.n_cols == params.n_heads * head_dim && out.n_cols == q.n_cols);
  DLLM_ASSERT(k.n_cols == params.n_kv_heads * head_dim && v.n_cols == k.n_cols);
  DLLM_ASSERT(out.buffer != q.buffer && out.buffer != k.buffer && out.buffer != v.buffer);
  const PanelShape shape(head_dim);
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
  const auto span_of = [&](std::span<const std::uint32_t> firsts, std::uint32_t block) {
    return static_cast<std::uint32_t>(std::upper_bound(firsts.begin(), firsts.end(), block) -
                                      firsts.begin() - 1);
  };
  const std::uint32_t n_key_blocks = first_keys[n_spans];
  const std::uint32_t n_query_blocks = first_queries[n_spans];
  grow(attention_panels_,
       std::uint64_t{n_key_blocks} * params.n_kv_heads * shape.floats() * sizeof(float),
       "attention panels");
  for (auto& each : scratch_)
    grow(each->attention, attention_thread_floats(head_dim) * sizeof(float), "attention scratch");
  const auto panel_at = [&](std::uint32_t key_block, std::uint32_t kv_head) {
    return attention_panels_.as<float>() +
           (std::uint64_t{key_block} * params.n_kv_heads + kv_head) * shape.floats();
  };

  arena_.for_each(n_key_blocks * params.n_kv_heads, 1, [&](std::uint32_t item, unsigned) {
    const std::uint32_t block = item / params.n_kv_heads;
    const std::uint32_t kv_head = item % params.n_kv_heads;
    const std::uint32_t s = span_of(first_keys, block);
    const std::uint32_t first = (block - first_keys[s]) * kKeyBlock;
    fill_panel(buffer_of(k), buffer_of(v), list[s].kv_begin + first,
               std::min(kKeyBlock, list[s].kv_count - first), kv_head * head_dim, shape,
               panel_at(block, kv_head));
  });

  arena_.for_each(n_query_blocks * params.n_heads, 1, [&](std::uint32_t item, unsigned slot) {
    const std::uint32_t block = item / params.n_heads;
    const std::uint32_t head = item % params.n_heads;
    const std::uint32_t kv_head = head * params.n_kv_heads / params.n_heads;
    const std::uint32_t s = span_of(first_queries, block);
    const std::uint32_t first = (block - first_queries[s]) * kQueryBlock;
    const QueryBlock queries{list[s].q_begin + first,
                             std::min(kQueryBlock, list[s].q_count - first), head * head_dim};
    const PanelRow keys{panel_at(first_keys[s], kv_head), params.n_kv_heads * shape.floats(),
                        list[s].kv_count};
    const QueryScratch work(scratch(slot).attention.as<float>(), shape);
    load_queries(buffer_of(q), queries, shape, work);
    attend(kernels_, keys, queries.n, params.scale, shape, work);
    store_queries(work, keys.n_keys, queries, shape, buffer_of(out));
  });
}

}  // namespace dllm::cpu
