// An f32 kernel: a block takes 32 queries of one sequence and head and walks the sequence's keys 32
// at a time with an online softmax. Eight threads share a query; each keeps every eighth group of
// four output dimensions. A query's result depends on its own row and its sequence's keys alone.
#include <string>

#include "attention.hpp"
#include "cuda_check.hpp"

namespace dllm::cuda {
namespace {

constexpr int kQueries = 32;
constexpr int kKeys = 32;
constexpr int kThreads = 256;
constexpr int kShare = kThreads / kQueries;  // threads of a query
constexpr std::uint32_t kMostDim = 256;

struct AttentionArgs {
  Rows q, k, v, out;
  const AttentionSpan* spans;
  std::uint32_t n_spans;
  std::uint32_t n_heads;
  std::uint32_t n_kv_heads;
  std::uint32_t head_dim;
  float scale;
};

struct Place {
  AttentionSpan span;
  std::uint32_t first;  // query of the span
  bool found;
};

// Block numbers count through the spans' query blocks; the grid may have more than there are.
__device__ Place find_place(const AttentionArgs& a) {
  std::uint32_t block = blockIdx.x;
  for (std::uint32_t s = 0; s < a.n_spans; ++s) {
    const AttentionSpan span = a.spans[s];
    const std::uint32_t n = (span.q_count + kQueries - 1) / kQueries;
    if (block < n) return {span, block * kQueries, true};
    block -= n;
  }
  return {{}, 0, false};
}

// Rows [first, first + 32) of one head to shared memory, zeros beyond `count` and head_dim.
__device__ void load_tile(const Rows& from, std::uint32_t first, std::uint32_t count,
                          std::uint32_t first_col, std::uint32_t head_dim, std::uint32_t stride,
                          float* to) {
  for (std::uint32_t i = threadIdx.x; i < 32 * stride; i += kThreads) {
    const std::uint32_t row = i / stride;
    const std::uint32_t d = i % stride;
    const bool exists = row < count && d < head_dim;
    to[i] = exists
                ? from.values[static_cast<std::uint64_t>(first + row) * from.n_cols + first_col + d]
                : 0.0f;
  }
}

__device__ float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }

template <typename Op>
__device__ float share(float value, Op op) {
  for (int offset = 1; offset < kShare; offset *= 2)
    value = op(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
  return value;
}

// kVectors: groups of four dimensions a thread keeps, head_dim <= 32 kVectors.
template <int kVectors>
__global__ void __launch_bounds__(kThreads) attend(AttentionArgs a) {
  extern __shared__ __align__(16) float shared[];
  const std::uint32_t stride = (a.head_dim + 3) / 4 * 4 + 4;  // + 4: rows start in other banks
  float* queries = shared;
  float* keys = queries + kQueries * stride;
  float* values = keys + kKeys * stride;
  float* weights = values + kKeys * stride;  // [kQueries][kKeys + 1]

  const Place place = find_place(a);
  if (!place.found) return;
  const std::uint32_t head = blockIdx.y;
  const std::uint32_t kv_col = head * a.n_kv_heads / a.n_heads * a.head_dim;
  const std::uint32_t n_queries = min(place.span.q_count - place.first, kQueries);
  load_tile(a.q, place.span.q_begin + place.first, n_queries, head * a.head_dim, a.head_dim, stride,
            queries);
  const int query = static_cast<int>(threadIdx.x) / kShare;
  const int part = static_cast<int>(threadIdx.x) % kShare;
  float largest = -INFINITY;
  float sum = 0;
  float4 acc[kVectors] = {};

  for (std::uint32_t first = 0; first < place.span.kv_count; first += kKeys) {
    const std::uint32_t n_keys = min(place.span.kv_count - first, kKeys);
    __syncthreads();
    load_tile(a.k, place.span.kv_begin + first, n_keys, kv_col, a.head_dim, stride, keys);
    load_tile(a.v, place.span.kv_begin + first, n_keys, kv_col, a.head_dim, stride, values);
    __syncthreads();
    float score[kKeys / kShare] = {};
    for (std::uint32_t d = 0; d < stride - 4; d += 4) {
      const float4 x = load4(queries + query * stride + d);
#pragma unroll
      for (int i = 0; i < kKeys / kShare; ++i) {
        const float4 y = load4(keys + (part + kShare * i) * stride + d);
        score[i] += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
      }
    }
    float top = largest;
#pragma unroll
    for (int i = 0; i < kKeys / kShare; ++i) {
      const bool exists = static_cast<std::uint32_t>(part + kShare * i) < n_keys;
      score[i] = exists ? score[i] * a.scale : -INFINITY;
      top = fmaxf(top, score[i]);
    }
    top = share(top, [](float x, float y) { return fmaxf(x, y); });
    const float factor = expf(largest - top);
    largest = top;
    float mine = 0;
#pragma unroll
    for (int i = 0; i < kKeys / kShare; ++i) {
      const float weight = expf(score[i] - top);
      weights[query * (kKeys + 1) + part + kShare * i] = weight;
      mine += weight;
    }
    sum = sum * factor + share(mine, [](float x, float y) { return x + y; });
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      acc[i].x *= factor;
      acc[i].y *= factor;
      acc[i].z *= factor;
      acc[i].w *= factor;
    }
    __syncwarp();  // a query's threads are in one warp
    for (std::uint32_t key = 0; key < n_keys; ++key) {
      const float weight = weights[query * (kKeys + 1) + key];
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const std::uint32_t d = 4 * (part + kShare * i);
        if (d >= stride - 4) continue;
        const float4 y = load4(values + key * stride + d);
        acc[i].x += weight * y.x;
        acc[i].y += weight * y.y;
        acc[i].z += weight * y.z;
        acc[i].w += weight * y.w;
      }
    }
    __syncwarp();
  }

  if (static_cast<std::uint32_t>(query) >= n_queries) return;
  float* to = a.out.values +
              static_cast<std::uint64_t>(place.span.q_begin + place.first + query) * a.out.n_cols +
              head * a.head_dim;
  const float inverse = place.span.kv_count == 0 ? 0.0f : 1.0f / sum;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const float part_of[4] = {acc[i].x, acc[i].y, acc[i].z, acc[i].w};
    for (int e = 0; e < 4; ++e) {
      const std::uint32_t d = 4 * (part + kShare * i) + e;
      if (d < a.head_dim) to[d] = part_of[e] * inverse;
    }
  }
}

template <int kVectors>
void launch_with(const AttentionArgs& args, dim3 grid, cudaStream_t stream) {
  const std::uint32_t stride = (args.head_dim + 3) / 4 * 4 + 4;
  const int bytes = static_cast<int>((3 * 32 * stride + kQueries * (kKeys + 1)) * sizeof(float));
  cuda_check(
      cudaFuncSetAttribute(attend<kVectors>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
      "asking for shared memory");
  attend<kVectors><<<grid, kThreads, bytes, stream>>>(args);
  launch_check("launching attention");
}

}  // namespace

void launch_attention(Rows q, Rows k, Rows v, const AttentionSpan* spans, std::uint32_t n_spans,
                      const AttentionParams& params, Rows out, cudaStream_t stream) {
  if (params.head_dim > kMostDim)
    throw Error(ErrorCode::unsupported,
                "heads of " + std::to_string(params.head_dim) + " dimensions, at most " +
                    std::to_string(kMostDim) + " can be run",
                "backend cuda, attention", "use --backend cpu");
  const AttentionArgs args = {
      q,           k, v, out, spans, n_spans, params.n_heads, params.n_kv_heads, params.head_dim,
      params.scale};
  const dim3 grid(out.n_rows / kQueries + n_spans, params.n_heads);
  const std::uint32_t vectors = (params.head_dim + 31) / 32;
  if (vectors <= 1) return launch_with<1>(args, grid, stream);
  if (vectors <= 2) return launch_with<2>(args, grid, stream);
  if (vectors <= 4) return launch_with<4>(args, grid, stream);
  launch_with<8>(args, grid, stream);
}

}  // namespace dllm::cuda
