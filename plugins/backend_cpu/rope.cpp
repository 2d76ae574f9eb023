// rope: rotary position embedding, with an optional RMS norm of each head before it.
// Angles, sines and cosines are computed in double and rounded once: a float angle would be off by
// several degrees at position 4096. A table serves all layers: it is made again only when the
// positions or the parameters are others than before.
#include <algorithm>
#include <cmath>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

bool fits(const RopeTable& table, std::span<const std::int32_t> positions,
          const RopeParams& params) {
  return table.kind == params.kind && table.n_rot == params.n_rot && table.theta == params.theta &&
         table.scale == params.scale &&
         std::equal(positions.begin(), positions.end(), table.positions.begin(),
                    table.positions.end());
}

// Where the cosine and sine of pair m stand: RowMath::rotate_pairs, rotate_halves.
void write_pair(RopeKind kind, std::uint32_t n_rot, std::uint32_t m, double angle, float* row) {
  const auto cosine = static_cast<float>(std::cos(angle));
  const auto sine = static_cast<float>(std::sin(angle));
  if (kind == RopeKind::norm) {
    row[2 * m] = row[2 * m + 1] = cosine;
    row[n_rot + 2 * m] = -sine;
    row[n_rot + 2 * m + 1] = sine;
  } else {
    row[m] = cosine;
    row[n_rot / 2 + m] = sine;
  }
}

std::uint32_t row_floats(const RopeParams& params) {
  return params.kind == RopeKind::norm ? 2 * params.n_rot : params.n_rot;
}

}  // namespace

void CpuBackend::fill_rope_table(RopeTable& table, std::span<const std::int32_t> positions,
                                 const RopeParams& params) {
  const std::uint32_t pairs = params.n_rot / 2;
  table.kind = params.kind;
  table.n_rot = params.n_rot;
  table.theta = params.theta;
  table.scale = params.scale;
  table.positions.assign(positions.begin(), positions.end());
  rope_frequencies_.resize(pairs);
  for (std::uint32_t m = 0; m < pairs; ++m)
    rope_frequencies_[m] =
        params.scale * std::pow(params.theta, -2.0 * m / static_cast<double>(params.n_rot));
  const std::uint32_t stride = row_floats(params);
  grow(table.values, positions.size() * stride * sizeof(float), "rope table");
  arena_.for_each(static_cast<std::uint32_t>(positions.size()), 4, [&](std::uint32_t r, unsigned) {
    float* row = table.values.as<float>() + std::uint64_t{r} * stride;
    for (std::uint32_t m = 0; m < pairs; ++m)
      write_pair(params.kind, params.n_rot, m, positions[r] * rope_frequencies_[m], row);
  });
}

// Two tables: a step has the positions of all rows and those of the scored ones.
const float* CpuBackend::rope_table(const IndexList& positions, const RopeParams& params) {
  const std::span<const std::int32_t> list = static_cast<const CpuIndexList&>(positions).values();
  if (!fits(rope_tables_[0], list, params)) {
    std::swap(rope_tables_[0], rope_tables_[1]);
    if (!fits(rope_tables_[0], list, params)) fill_rope_table(rope_tables_[0], list, params);
  }
  return rope_tables_[0].values.as<float>();
}

void CpuBackend::rope(TensorView x, const IndexList& positions, const RopeParams& params) {
  const StageTimer timer(profile_, Stage::attention, "rope");
  DLLM_ASSERT(x.n_rows == positions.size());
  DLLM_ASSERT(x.n_cols == params.n_heads * params.head_dim);
  DLLM_ASSERT(params.n_rot % 2 == 0 && params.n_rot <= params.head_dim);
  const float* head_norm =
      params.head_norm ? vector_of(*params.head_norm, params.head_dim) : nullptr;
  const float* table = rope_table(positions, params);
  const std::uint32_t stride = row_floats(params);
  const auto rotate =
      params.kind == RopeKind::norm ? kernels_.rows.rotate_pairs : kernels_.rows.rotate_halves;
  // Four rows of a few thousand values take some microseconds.
  arena_.for_each(x.n_rows, 4, [&](std::uint32_t r, unsigned) {
    float* row = buffer_of(x).row(r);
    for (std::uint32_t h = 0; head_norm && h < params.n_heads; ++h) {
      float* head = row + std::uint64_t{h} * params.head_dim;
      kernels_.rows.normalise(head, head_norm, params.head_dim, params.head_norm_eps, head);
    }
    rotate(row, params.n_heads, params.head_dim, table + std::uint64_t{r} * stride, params.n_rot);
  });
}

}  // namespace dllm::cpu
