// Attention over up to kShortKeys keys: groups of warps share 64 queries and take a tile of keys
// each, at once; then they add what they found, in the order of the tiles.
//
// With u a group's unit of sums and m its largest score (attention_queries.cuh), a group's sums
// count 2^(m - m') u / u' times, where m' and u' are the largest of all groups.
#include <algorithm>

#include "attention_queries.cuh"
#include "launch.cuh"

namespace dllm::cuda {
namespace {

constexpr int kKeys = 64;
constexpr int kThreads = kShortTiles * kGroupThreads;
constexpr int kFigures = 5;  // of a thread, besides its sums

#if defined(DLLM_WARPGROUPS)

// What a group leaves to the others, instead of its tile: sums [kDim / 2][thread], then figures.
template <int kDim>
struct Leaving {
  static constexpr int kSums = kDim / 2;
  float* at;  // of the first group
  int step;   // floats from group to group

  __device__ __forceinline__ float& sum(int group, int i, int thread) const {
    return at[group * step + i * kGroupThreads + thread];
  }
  // 0, 1: the largest scores of the thread's rows; 2, 3: sums of weights; 4: the unit.
  __device__ __forceinline__ float& figure(int group, int i, int thread) const {
    return sum(group, kSums + i, thread);
  }
};
template <int kDim, typename Own>
__device__ __forceinline__ void leave(const Leaving<kDim>& all, const Own& own, int group,
                                      int thread) {
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) all.sum(group, i, thread) = own.acc[i];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    all.figure(group, half, thread) = own.top[half];
    all.figure(group, 2 + half, thread) =
        over_row(own.sum[half], [](float x, float y) { return x + y; });
  }
  all.figure(group, 4, thread) = own.unit;
}

// The sums of all groups: this group's threads take every kShortTiles-th pair of dimensions.
template <int kDim>
__device__ __forceinline__ void store_sums(const AttentionArgs& a, const Place& place,
                                           const Leaving<kDim>& all, int group, int thread) {
  float unit = 0;
#pragma unroll
  for (int g = 0; g < kShortTiles; ++g) unit = fmaxf(unit, all.figure(g, 4, thread));
  const int lane = thread % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t query = place.first + 16 * (thread / 32) + lane / 4 + 8 * half;
    if (query >= place.span.q_count) continue;
    float most = -INFINITY;
#pragma unroll
    for (int g = 0; g < kShortTiles; ++g) most = fmaxf(most, all.figure(g, half, thread));
    float counts[kShortTiles];
    float total = 0;
#pragma unroll
    for (int g = 0; g < kShortTiles; ++g) {
      const float weight = power_of_two(all.figure(g, half, thread) - most);
      total += all.figure(g, 2 + half, thread) * weight;
      counts[g] = weight * (all.figure(g, 4, thread) / unit);
    }
    const float factor = unit / total;
    float* to = a.out.values +
                static_cast<std::uint64_t>(place.span.q_begin + query) * a.out.n_cols +
                blockIdx.y * a.head_dim;
    for (int n = group; n < kDim / 8; n += kShortTiles) {
      float both[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        both[i] = 0;
#pragma unroll
        for (int g = 0; g < kShortTiles; ++g)
          both[i] += all.sum(g, 4 * n + 2 * half + i, thread) * counts[g];
        both[i] = place.span.kv_count == 0 ? 0 : both[i] * factor;
      }
      const std::uint32_t d = 8 * n + 2 * (lane % 4);
      if (a.head_dim % 2 == 0) {
        if (d < a.head_dim) *reinterpret_cast<float2*>(to + d) = {both[0], both[1]};
      } else {
        if (d < a.head_dim) to[d] = both[0];
        if (d + 1 < a.head_dim) to[d + 1] = both[1];
      }
    }
  }
}

#endif

template <int kDim>
using Products = WarpgroupProducts<kDim, kKeys>;
/// Bytes of a group: its tile, later what it leaves.
template <int kDim>
constexpr int kShortStep =
    (std::max(Stages<Products<kDim>, kKeys>::kStageBytes,
              (kDim / 2 + kFigures) * kGroupThreads * static_cast<int>(sizeof(float))) +
     Products<kDim>::kAlignment - 1) /
    Products<kDim>::kAlignment * Products<kDim>::kAlignment;

template <int kDim>
__global__ void __launch_bounds__(kThreads, 1) attend_short(AttentionArgs a) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ __align__(16) std::uint8_t shared[];
  const int group = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / kGroupThreads, 0));
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  const std::uint32_t kv_head = blockIdx.y * a.k.n_heads / a.q.n_heads;
  const std::uint32_t base = (shared_address(shared) + Products<kDim>::kAlignment - 1) /
                             Products<kDim>::kAlignment * Products<kDim>::kAlignment;
  std::uint8_t* memory = shared + (base - shared_address(shared));
  const Place place = find_place(a, kGroupQueries);
  wait_for_predecessor();
  let_successor_start();
  if (!place.found || place.span.kv_count > kShortKeys) return;

  const std::uint32_t first = group * kKeys;
  const std::uint32_t stage = group * kShortStep<kDim>;
  const TileLoader<Products<kDim>, kDim, kKeys, kGroupThreads> loader(a, kv_head, place.span);
  if (first < place.span.kv_count) loader.load(first, base + stage);
  copy_commit();
  Queries<Products<kDim>, kDim, kKeys> queries;
  queries.load(a, place, blockIdx.y, thread / 32, thread % 32);
  copy_wait<0>();
  Products<kDim>::tile_is_there();
  __syncthreads();
  if (first < place.span.kv_count)
    queries.visit(base + stage,
                  reinterpret_cast<const float*>(memory + stage + 2 * Products<kDim>::kTileBytes),
                  place.span.kv_count - first, thread % 32);
  __syncthreads();
  const Leaving<kDim> all = {reinterpret_cast<float*>(memory), kShortStep<kDim> / 4};
  leave(all, queries, group, thread);
  __syncthreads();
  store_sums(a, place, all, group, thread);
#endif
}

template <int kDim>
void launch_short(const AttentionArgs& args, cudaStream_t stream) {
  constexpr int kBytes = kShortTiles * kShortStep<kDim> + Products<kDim>::kAlignment - 16;
  cuda_check(
      cudaFuncSetAttribute(attend_short<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
      "asking for shared memory");
  const dim3 grid(args.out.n_rows / kGroupQueries + args.n_spans, args.q.n_heads);
  launch("launching attention", attend_short<kDim>, grid, kThreads, kBytes, stream, args);
}

}  // namespace

void launch_short_attention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.q.stride == 64) return launch_short<64>(args, stream);
  launch_short<128>(args, stream);
}

}  // namespace dllm::cuda
