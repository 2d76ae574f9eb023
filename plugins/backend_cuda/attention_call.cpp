// rope and attention: the host's part.
#include <algorithm>

#include "attention.hpp"
#include "cuda_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kMostDim = 256;

const float* head_norm_of(const RopeParams& params) {
  if (!params.head_norm) return nullptr;
  const auto* vector = dynamic_cast<const Vector*>(params.head_norm);
  DLLM_ASSERT(vector != nullptr && vector->n_cols() == params.head_dim);
  return vector->values();
}

}  // namespace

void CudaBackend::reserve_attention(std::uint64_t n_rows, std::uint32_t n_heads,
                                    std::uint32_t head_dim) {
  const std::uint32_t dim = std::clamp(head_dim, 1u, kMostDim);
  const std::uint64_t rows_of_heads = 3 * n_rows * n_heads;
  grow(heads_, rows_of_heads * attention_stride(dim) * sizeof(__half), "heads of attention");
  grow(head_scales_, rows_of_heads * sizeof(float), "heads of attention");
  grow(group_scales_, n_rows * HeadRows::groups_of(n_heads) * sizeof(float), "heads of attention");
  grow(rotations_.tables(), Rotations::table_bytes(n_rows, dim), "angles of positions");
}

// Heads whose rows follow `first_row` rows of heads.
HeadRows CudaBackend::head_rows(std::uint64_t first_row, std::uint32_t n_rows,
                                std::uint32_t n_heads, std::uint32_t head_dim) const {
  const std::uint32_t stride = attention_stride(head_dim);
  return {heads_.as<__half>() + first_row * stride, head_scales_.as<float>() + first_row, n_rows,
          n_heads, stride};
}

void CudaBackend::rope(TensorView x, const IndexList& positions, const RopeParams& params) {
  DLLM_ASSERT(x.n_rows == positions.size());
  DLLM_ASSERT(x.n_cols == params.n_heads * params.head_dim);
  DLLM_ASSERT(params.n_rot % 2 == 0 && params.n_rot <= params.head_dim);
  if (x.n_rows == 0) return;
  (void)attention_stride(params.head_dim);  // refuses heads that are too wide
  forget_prepared(stored_rows(x));
  const EventTimer timer(profile_, Stage::attention, "rope", stream_.get());
  grow(rotations_.tables(), Rotations::table_bytes(x.n_rows, params.n_rot), "angles of positions");
  rotations_.add({stored_rows(x), static_cast<const CudaIndexList&>(positions).values(), params,
                  head_norm_of(params)},
                 stream_.get());
}

// Row-split matrices read what is made between column-split ones, attention's result or a
// feed-forward layer's. In what form it is made must not depend on what ran before, because the
// power of two of a panel of binary16 bounds what attention's rows keep; so it is known from the
// weights alone, or not at all.
void CudaBackend::note_reader(WeightRole role, const Matrix& matrix) {
  if (role != WeightRole::row_split) return;
  const Way way = matrix.packed().way();
  const auto [at, is_new] = reader_ways_.try_emplace(matrix.n_cols(), way);
  if (!is_new && at->second != way) at->second.reset();
}

std::optional<Way> CudaBackend::way_of_reader(std::uint32_t n_cols) const {
  if (mode_ != Products::mixed) return mode_ == Products::int8 ? Way::int8 : Way::f16;
  const auto found = reader_ways_.find(n_cols);
  return found == reader_ways_.end() ? std::nullopt : found->second;
}

void CudaBackend::attention(TensorView q, TensorView k, TensorView v, const AttentionSpans& spans,
                            const AttentionParams& params, TensorView out) {
  DLLM_ASSERT(params.n_kv_heads > 0 && params.n_heads % params.n_kv_heads == 0);
  DLLM_ASSERT(q.n_cols == params.n_heads * params.head_dim && out.n_cols == q.n_cols);
  DLLM_ASSERT(k.n_cols == params.n_kv_heads * params.head_dim && v.n_cols == k.n_cols);
  DLLM_ASSERT(k.n_rows == v.n_rows);
  DLLM_ASSERT(q.buffer != k.buffer && q.buffer != v.buffer && k.buffer != v.buffer);
  DLLM_ASSERT(out.buffer != q.buffer && out.buffer != k.buffer && out.buffer != v.buffer);
  const auto& list = static_cast<const CudaAttentionSpans&>(spans);
  if (list.size() == 0 || out.n_rows == 0) return;
  const EventTimer timer(profile_, Stage::attention, "attention", stream_.get());

  const std::uint64_t q_rows = std::uint64_t{q.n_rows} * params.n_heads;
  const std::uint64_t kv_rows = std::uint64_t{k.n_rows} * params.n_kv_heads;
  const std::uint64_t all_rows = q_rows + 2 * kv_rows;
  grow(heads_, all_rows * attention_stride(params.head_dim) * sizeof(__half), "heads of attention");
  grow(head_scales_, all_rows * sizeof(float), "heads of attention");
  const HeadRows q_heads = head_rows(0, q.n_rows, params.n_heads, params.head_dim);
  const HeadRows k_heads = head_rows(q_rows, k.n_rows, params.n_kv_heads, params.head_dim);
  HeadRows v_heads = head_rows(q_rows + kv_rows, v.n_rows, params.n_kv_heads, params.head_dim);

  HeadJobs jobs;
  jobs.head_dim = params.head_dim;
  jobs.count = 3;
  const auto job = [&](const TensorView& x, std::uint32_t n_heads, const HeadRows& to) -> HeadJob {
    const Rotation rotation = rotations_.take(stored_rows(x), stream_.get());
    return {stored_rows(x), n_heads, rotation, to, sums_.take_new(stored_rows(x))};
  };
  jobs.job[0] = job(q, params.n_heads, q_heads);
  jobs.job[1] = job(k, params.n_kv_heads, k_heads);
  jobs.job[2] = job(v, params.n_kv_heads, v_heads);
  const SpanList all_spans = {list.values(), list.size(), *long_lists_ == 0};
  const Rows out_rows = new_rows_of(out);
  const std::optional<Way> reader = way_of_reader(out.n_cols);
  const Way way = reader.value_or(Way::f16);
  const bool may_write_input = reader && may_have_panel(jobs, way, gemm_device_);
  const bool writes_input =
      may_write_input && all_spans.all_short && list.n_queries() == out.n_rows;
  Inputs inputs;
  // Row scales of sums that were taken lie in input_, which reserve() keeps from moving in a step.
  if (writes_input) place_input(input_, way, out.n_rows, out.n_cols, inputs);
  if (may_write_input && way == Way::f16) {
    grow(group_scales_,
         std::uint64_t{v.n_rows} * HeadRows::groups_of(params.n_kv_heads) * sizeof(float),
         "heads of attention");
    jobs.job[2].to.group_scale = v_heads.group_scale = group_scales_.as<float>();
  }
  launch_heads(jobs, stream_.get());
  launch_attention(q_heads, k_heads, v_heads, all_spans, params, {out_rows, inputs}, gemm_device_,
                   stream_.get());
  if (writes_input) prepared_ = {out_rows, inputs, way};
}

}  // namespace dllm::cuda
