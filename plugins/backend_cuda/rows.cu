// Norm, gate, rotation and copies. In every kernel a block owns one row (of the output) and its
// threads stride over the columns; in rope() a warp owns whole heads of the row.
#include "block_codes.cuh"
#include "cuda_check.hpp"
#include "reduce.cuh"
#include "rows.hpp"

namespace dllm::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                      std::uint32_t n_table_rows, const std::int32_t* ids, Rows out) {
  const std::int32_t id = ids[blockIdx.x];
  float* to = out.values + static_cast<std::uint64_t>(blockIdx.x) * out.n_cols;
  const bool valid = id >= 0 && static_cast<std::uint32_t>(id) < n_table_rows;
  for (std::uint32_t k = threadIdx.x; k < out.n_cols; k += blockDim.x)
    to[k] = valid ? row_value(dtype, table + id * row_bytes, k) : nanf("");
}

// The power of two that brings `largest` into [2^13, 2^14): binary16 then holds the row with 11
// significant bits down to 2^-28 of its largest value. A row that is not finite stays so.
__device__ float row_exponent(float largest) {
  if (!(largest > 0)) return largest == 0 ? 1.0f : largest;
  if (isinf(largest)) return largest;
  int exponent = 0;
  frexpf(largest, &exponent);
  return ldexpf(1.0f, max(exponent - 14, -126));
}

__device__ void write_panel(const Panel& panel, const float* values, float largest, float factor,
                            const float* norm) {
  const float scale = row_exponent(largest);
  const float inverse = scale != scale || isinf(scale) ? nanf("") : 1.0f / scale;
  const std::uint32_t n_cols = Panel::padded_cols(panel.n_cols);
  for (std::uint32_t k = threadIdx.x; k < n_cols; k += blockDim.x) {
    float value = 0;
    if (k < panel.n_cols) value = norm ? values[k] * factor * norm[k] : values[k];
    panel.values[panel.at(blockIdx.x, k)] = __float2half_rn(value * inverse);
  }
  if (threadIdx.x == 0) panel.row_scale[blockIdx.x] = scale;
}

__global__ void prepare(Rows x, const float* norm, float eps, Panel panel) {
  __shared__ double sums[32];
  __shared__ float maxima[32];
  const float* row = x.values + static_cast<std::uint64_t>(blockIdx.x) * x.n_cols;
  float factor = 1;
  if (norm) {
    double sum = 0;
    for (std::uint32_t k = threadIdx.x; k < x.n_cols; k += blockDim.x)
      sum += static_cast<double>(row[k]) * static_cast<double>(row[k]);
    sum = reduce_block(sum, 0.0, Add{}, sums);
    factor = static_cast<float>(1.0 / sqrt(sum / x.n_cols + static_cast<double>(eps)));
  }
  float largest = 0;
  for (std::uint32_t k = threadIdx.x; k < x.n_cols; k += blockDim.x)
    largest = Larger{}(fabsf(norm ? row[k] * factor * norm[k] : row[k]), largest);
  largest = reduce_block(largest, 0.0f, Larger{}, maxima);
  write_panel(panel, row, largest, factor, norm);
}

__global__ void swiglu(Rows gate, Rows up, Panel panel) {
  __shared__ float maxima[32];
  float* g = gate.values + static_cast<std::uint64_t>(blockIdx.x) * gate.n_cols;
  const float* u = up.values + static_cast<std::uint64_t>(blockIdx.x) * up.n_cols;
  float largest = 0;
  for (std::uint32_t k = threadIdx.x; k < gate.n_cols; k += blockDim.x) {
    const float value = g[k] / (1.0f + expf(-g[k])) * u[k];
    g[k] = value;
    largest = Larger{}(fabsf(value), largest);
  }
  largest = reduce_block(largest, 0.0f, Larger{}, maxima);
  write_panel(panel, g, largest, 1, nullptr);
}

struct RopeArgs {
  Rows x;
  const std::int32_t* positions;
  const float* head_norm;
  float head_norm_eps;
  std::uint32_t n_heads;
  std::uint32_t head_dim;
  std::uint32_t n_rot;
  bool neox;
  double theta;
  double scale;
};

// Angles are in double, once per row, then sines and cosines in f32.
__global__ void rope(RopeArgs a) {
  extern __shared__ float table[];  // [n_rot / 2] cosines, then sines
  const std::uint32_t half = a.n_rot / 2;
  for (std::uint32_t m = threadIdx.x; m < half; m += blockDim.x) {
    const double angle =
        a.positions[blockIdx.x] * a.scale * pow(a.theta, -2.0 * static_cast<double>(m) / a.n_rot);
    double sine = 0;
    double cosine = 0;
    sincos(angle, &sine, &cosine);
    table[m] = static_cast<float>(cosine);
    table[half + m] = static_cast<float>(sine);
  }
  __syncthreads();
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t head = threadIdx.x / 32; head < a.n_heads; head += blockDim.x / 32) {
    float* x = a.x.values + static_cast<std::uint64_t>(blockIdx.x) * a.x.n_cols + head * a.head_dim;
    if (a.head_norm) {
      double sum = 0;
      for (std::uint32_t k = lane; k < a.head_dim; k += 32)
        sum += static_cast<double>(x[k]) * static_cast<double>(x[k]);
      for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
      const auto factor =
          static_cast<float>(1.0 / sqrt(sum / a.head_dim + static_cast<double>(a.head_norm_eps)));
      for (std::uint32_t k = lane; k < a.head_dim; k += 32) x[k] = x[k] * factor * a.head_norm[k];
      __syncwarp();
    }
    for (std::uint32_t m = lane; m < half; m += 32) {
      const std::uint32_t first = a.neox ? m : 2 * m;
      const std::uint32_t second = a.neox ? m + half : 2 * m + 1;
      const float p = x[first];
      const float q = x[second];
      x[first] = p * table[m] - q * table[half + m];
      x[second] = p * table[half + m] + q * table[m];
    }
  }
}

__global__ void copy_rows(Rows from, const std::int32_t* rows, Rows to) {
  const float* source = from.values + static_cast<std::uint64_t>(rows[blockIdx.x]) * from.n_cols;
  float* target = to.values + static_cast<std::uint64_t>(blockIdx.x) * to.n_cols;
  for (std::uint32_t k = threadIdx.x; k < to.n_cols; k += blockDim.x) target[k] = source[k];
}

}  // namespace

void launch_embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                  std::uint32_t n_table_rows, const std::int32_t* ids, Rows out,
                  cudaStream_t stream) {
  embed<<<out.n_rows, kThreads, 0, stream>>>(dtype, table, row_bytes, n_table_rows, ids, out);
  launch_check("launching embed");
}

void launch_prepare(Rows x, const float* norm, float eps, Panel panel, cudaStream_t stream) {
  prepare<<<x.n_rows, kThreads, 0, stream>>>(x, norm, eps, panel);
  launch_check("launching prepare");
}

void launch_swiglu(Rows gate, Rows up, Panel panel, cudaStream_t stream) {
  swiglu<<<gate.n_rows, 2 * kThreads, 0, stream>>>(gate, up, panel);
  launch_check("launching swiglu");
}

void launch_rope(Rows x, const std::int32_t* positions, const RopeParams& params,
                 const float* head_norm, cudaStream_t stream) {
  const RopeArgs args = {x,
                         positions,
                         head_norm,
                         params.head_norm_eps,
                         params.n_heads,
                         params.head_dim,
                         params.n_rot,
                         params.kind == RopeKind::neox,
                         params.theta,
                         params.scale};
  rope<<<x.n_rows, kThreads, params.n_rot * sizeof(float), stream>>>(args);
  launch_check("launching rope");
}

void launch_copy_rows(Rows from, const std::int32_t* rows, Rows to, cudaStream_t stream) {
  copy_rows<<<to.n_rows, kThreads, 0, stream>>>(from, rows, to);
  launch_check("launching copy_rows");
}

}  // namespace dllm::cuda
