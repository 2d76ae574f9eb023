// rope: rotary position embedding, with an optional RMS norm of each head before it.
// Angles, sines and cosines are computed in double and rounded once: a float angle would be off by
// several degrees at position 4096.
#include <cmath>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

// Rotates the leading n_rot values of one head by table[pair] = (cos, sin).
void rotate(float* head, const RopeParams& params, const float* table) {
  const std::uint32_t pairs = params.n_rot / 2;
  const std::uint32_t step = params.kind == RopeKind::norm ? 2 : 1;
  const std::uint32_t other = params.kind == RopeKind::norm ? 1 : pairs;
  for (std::uint32_t m = 0; m < pairs; ++m) {
    const float cosine = table[2 * m];
    const float sine = table[2 * m + 1];
    const float a = head[m * step];
    const float b = head[m * step + other];
    head[m * step] = a * cosine - b * sine;
    head[m * step + other] = a * sine + b * cosine;
  }
}

}  // namespace

// rope_table_[row][pair] = (cos, sin) for this list of positions.
void CpuBackend::fill_rope_table(const IndexList& positions, const RopeParams& params) {
  const std::span<const std::int32_t> list = static_cast<const CpuIndexList&>(positions).values();
  const std::uint32_t pairs = params.n_rot / 2;
  rope_frequencies_.resize(pairs);
  for (std::uint32_t m = 0; m < pairs; ++m)
    rope_frequencies_[m] =
        params.scale * std::pow(params.theta, -2.0 * m / static_cast<double>(params.n_rot));
  grow(rope_table_, list.size() * params.n_rot * sizeof(float), "rope table");
  arena_.for_each(static_cast<std::uint32_t>(list.size()), 4, [&](std::uint32_t r, unsigned) {
    float* row = rope_table_.as<float>() + std::uint64_t{r} * params.n_rot;
    for (std::uint32_t m = 0; m < pairs; ++m) {
      const double angle = list[r] * rope_frequencies_[m];
      row[2 * m] = static_cast<float>(std::cos(angle));
      row[2 * m + 1] = static_cast<float>(std::sin(angle));
    }
  });
}

void CpuBackend::rope(TensorView x, const IndexList& positions, const RopeParams& params) {
  DLLM_ASSERT(x.n_rows == positions.size());
  DLLM_ASSERT(x.n_cols == params.n_heads * params.head_dim);
  DLLM_ASSERT(params.n_rot % 2 == 0 && params.n_rot <= params.head_dim);
  const float* head_norm =
      params.head_norm ? vector_of(*params.head_norm, params.head_dim) : nullptr;
  const StageTimer timer(profile_, Stage::attention, "rope");
  fill_rope_table(positions, params);
  arena_.for_each(x.n_rows, 2, [&](std::uint32_t r, unsigned) {
    const float* table = rope_table_.as<float>() + std::uint64_t{r} * params.n_rot;
    for (std::uint32_t h = 0; h < params.n_heads; ++h) {
      float* head = buffer_of(x).row(r) + std::uint64_t{h} * params.head_dim;
      if (head_norm)
        kernels_.rows.normalise(head, head_norm, params.head_dim, params.head_norm_eps, head);
      rotate(head, params, table);
    }
  });
}

}  // namespace dllm::cpu
