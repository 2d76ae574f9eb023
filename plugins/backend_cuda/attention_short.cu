// Attention over up to kShortKeys keys: a block has 64 queries of a head and all their keys at
// once. Two warpgroups take every other eight keys for the scores, and 64 dimensions each of the
// values; weights meet in shared memory, between largest scores and sums of weights of both halves.
//
// Powers of two as in attention.cu, relative to the sequence's largest: keys' multiply scores,
// which then cannot overflow, values' multiply weights.
//
// Where it is wanted, the result is written as the output product reads it, too. A row's power of
// two has to be known before its other heads are: a result is an average of values, so with u the
// largest power of all heads' values in the sequence it is below 2 u, up to rounding, and 2^-14 u
// keeps it below 2^15. Full precision then goes down to 2^-29 of 2 u.
//
// It runs for a few microseconds and waits for its instructions more than for anything else: each
// is executed once. So it is written for few of them.
#include "async_copy.cuh"
#include "attention_queries.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "row_scale.cuh"

namespace dllm::cuda {
namespace {

constexpr int kGroups = 2;
constexpr int kWarps = kGroups * kGroupWarps;
constexpr std::uint32_t kThreads = kGroups * kGroupThreads;
constexpr int kKeys = static_cast<int>(kShortKeys);
constexpr int kOwnKeys = kKeys / kGroups;
template <int kDim>
using Products = WarpgroupProducts<kDim, kKeys>;

// How a block's shared memory is used, in bytes. Weights take the place of keys; they and the tiles
// of a panel are blocks of 64 rows of 128 bytes with 128-byte swizzle.
template <int kDim>
struct Shared {
  static constexpr int kTile = kGroupQueries * 128;
  static constexpr int kWeights = 0;
  static constexpr int kValues = Products<kDim>::kTileBytes;
  static constexpr bool kTilesFit = kKeys / 64 * kTile + kDim / 64 * kTile <= kValues;
  static constexpr int kTiles = kTilesFit ? kKeys / 64 * kTile : 2 * kValues;
  static constexpr int kKeyFactors = 2 * kValues + (kTilesFit ? 0 : kDim / 64 * kTile);
  static constexpr int kValueFactors = kKeyFactors + 8 * kKeys;            // after a float2 a key
  static constexpr int kLargest = kValueFactors + 4 * kKeys;               // after a float a key
  static constexpr int kRowMost = kLargest + 16 * kWarps;                  // after a uint4 a warp
  static constexpr int kRowSums = kRowMost + 4 * kGroups * kGroupQueries;  // a float a row
  static constexpr int kUsed = kRowSums + 4 * kGroups * kGroupQueries;
  static constexpr int kBytes = kUsed + Products<kDim>::kAlignment - 16;
};

#if defined(DLLM_WARPGROUPS)

// What a thread is in its block.
struct Thread {
  std::uint32_t number = threadIdx.x;
  int lane = static_cast<int>(threadIdx.x % 32);
  int group = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / kGroupThreads), 0);
  int warp = static_cast<int>(threadIdx.x % kGroupThreads / 32);  // of the group
  int row = 16 * warp + lane / 4;                                 // of the queries, and row + 8

  __device__ __forceinline__ void sync_group() const {
    asm volatile("bar.sync %0, %1;\n" ::"r"(group + 1), "n"(kGroupThreads) : "memory");
  }
};

// Keys, then values, zeros beyond the sequence's end. A thread keeps its 16-byte chunk of rows.
template <int kDim>
__device__ __forceinline__ void load_rows(const AttentionArgs& a, const AttentionSpan& span,
                                          std::uint32_t to, std::uint32_t thread) {
  constexpr std::uint32_t kChunks = kDim / 8;
  constexpr std::uint32_t kStep = kThreads / kChunks;  // rows
  static_assert(kStep % 8 == 0 && kKeys % kStep == 0);
  const std::uint32_t chunk = thread % kChunks;
  const std::uint32_t first = thread / kChunks;
  const std::uint64_t place =
      (static_cast<std::uint64_t>(blockIdx.y) * a.k.n_rows + span.kv_begin + first) * kDim +
      chunk * 8;
  to += Products<kDim>::place(static_cast<int>(first), static_cast<int>(chunk));
  const __half* from = a.k.values + place;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
#pragma unroll 6
    for (std::uint32_t i = 0; i < kKeys / kStep; ++i)
      copy_async(to + i * Products<kDim>::further(kStep), from + i * kStep * kDim,
                 first + i * kStep < span.kv_count);
    copy_commit();
    to += Shared<kDim>::kValues;
    from = a.v.values + place;
  }
}

// The largest powers of two of a sequence, as words.
struct LargestScales {
  unsigned key = 0, value = 0;  // of the head
  unsigned all_values = 0;      // of all heads

  __device__ __forceinline__ void over_block(uint4* shared, const Thread& thread) {
    constexpr unsigned kAll = 0xFFFFFFFFu;
    const uint4 own = {__reduce_max_sync(kAll, key), __reduce_max_sync(kAll, value),
                       __reduce_max_sync(kAll, all_values), 0};
    if (thread.lane == 0) shared[thread.number / 32] = own;
    __syncthreads();
    const uint4 each = shared[thread.lane % kWarps];
    key = __reduce_max_sync(kAll, each.x);
    value = __reduce_max_sync(kAll, each.y);
    all_values = __reduce_max_sync(kAll, each.z);
  }
};

// scale / largest of two powers of two, 0 where that is below 2^-126. Where `largest` is NaN,
// anything: what it multiplies then is NaN.
__device__ __forceinline__ float part_of(unsigned scale, unsigned largest) {
  return __int_as_float(max(static_cast<int>(scale - largest + (127u << 23)), 0));
}

// Factors of keys and values, a key a thread, and the largest. Scales are powers of two or NaN: as
// words they are in order, and NaN is above all numbers.
template <int kDim>
__device__ __forceinline__ LargestScales load_scales(const AttentionArgs& a,
                                                     const AttentionSpan& span,
                                                     std::uint8_t* memory, const Thread& thread) {
  static_assert(kThreads >= kKeys);
  const auto words = [](const float* scale) { return reinterpret_cast<const unsigned*>(scale); };
  const std::uint64_t row = static_cast<std::uint64_t>(blockIdx.y) * a.k.n_rows + span.kv_begin;
  const bool exists = thread.number < span.kv_count;
  LargestScales largest;
  if (exists) {
    largest.key = words(a.k.scale)[row + thread.number];
    largest.value = words(a.v.scale)[row + thread.number];
  }
  const unsigned key = largest.key;
  const unsigned value = largest.value;
  if (a.panel.values) {
    const std::uint32_t n_groups = HeadRows::groups_of(a.v.n_heads);
    std::uint32_t group = thread.number / 32;
    const unsigned* at = words(a.v.group_scale) + static_cast<std::uint64_t>(group) * a.v.n_rows +
                         span.kv_begin + thread.lane;
#pragma unroll 1
    for (; group < n_groups; group += kWarps) {
#pragma unroll
      for (int i = 0; i < kKeys / 32; ++i)
        if (thread.lane + 32 * i < static_cast<int>(span.kv_count))
          largest.all_values = max(largest.all_values, at[32 * i]);
      at += static_cast<std::uint64_t>(kWarps) * a.v.n_rows;
    }
  }
  largest.over_block(reinterpret_cast<uint4*>(memory + Shared<kDim>::kLargest), thread);
  if (thread.number < kKeys) {
    // Without any key, weights of 1 and values of 0.
    const float hides = exists || span.kv_count == 0 ? 0 : -INFINITY;
    const float sign = a.scale < 0 ? -1.0f : 1.0f;
    reinterpret_cast<float2*>(memory + Shared<kDim>::kKeyFactors)[thread.number] = {
        exists ? sign * part_of(key, largest.key) : 0, hides};
    reinterpret_cast<float*>(memory + Shared<kDim>::kValueFactors)[thread.number] =
        exists ? part_of(value, largest.value) : 0;
  }
  return largest;
}

// A thread's part of its two rows of queries, as products take it; beyond the sequence's queries
// that of the first one.
template <int kDim>
struct OwnQueries {
  std::uint32_t operands[kDim / 16][4];
  float factor[2];  // of scores

  __device__ __forceinline__ void load(const AttentionArgs& a, const Place& place,
                                       std::uint32_t head, const Thread& thread) {
    const __half* row[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t query = place.first + thread.row + 8 * half;
      const std::uint64_t at = static_cast<std::uint64_t>(head) * a.q.n_rows + place.span.q_begin +
                               (query < place.span.q_count ? query : 0);
      row[half] = a.q.values + at * kDim + 2 * (thread.lane % 4);
      factor[half] = a.q.scale[at] * fabsf(a.scale);
    }
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step)
#pragma unroll
      for (int p = 0; p < 4; ++p)
        operands[step][p] =
            __ldg(reinterpret_cast<const unsigned*>(row[p % 2] + 16 * step + 8 * (p / 2)));
  }
};

// s[4 n + 2 half + i]: of row `half` and key 8 (kGroups n + group) + 2 (lane % 4) + i.
using Scores = float[kOwnKeys / 2];

// Scores of this group's keys, to be multiplied by the row's factor.
template <int kDim>
__device__ __forceinline__ void find_scores(const OwnQueries<kDim>& queries, std::uint32_t keys,
                                            const Thread& thread, Scores& s) {
  const std::uint64_t first = swizzled_operand(keys + thread.group * 1024, kGroups * 1024);
  products_fence();
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    WarpgroupProduct<kOwnKeys>::run(
        s, queries.operands[step],
        first + (step / 4 * Products<kDim>::kBlockBytes + step % 4 * 32) / 16, step > 0);
  }
  products_commit();
  products_wait();
}

// A row's figure of both groups, by way of shared memory.
template <typename Op>
__device__ __forceinline__ void over_groups(float (&figure)[2], std::uint8_t* memory,
                                            const Thread& thread, const Op& op) {
  auto* rows = reinterpret_cast<float*>(memory);
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* row = rows + thread.row + 8 * half;
    figure[half] = row[0];
#pragma unroll
    for (int group = 1; group < kGroups; ++group)
      figure[half] = op(figure[half], row[group * kGroupQueries]);
  }
}
template <typename Op>
__device__ __forceinline__ void leave(const float (&figure)[2], std::uint8_t* memory,
                                      const Thread& thread, const Op& op) {
  auto* rows = reinterpret_cast<float*>(memory) + thread.group * kGroupQueries + thread.row;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float all = over_row(figure[half], op);
    if (thread.lane % 4 == 0) rows[8 * half] = all;
  }
}

// Scores become weights of values in shared memory. Gives the sums of weights.
template <int kDim>
__device__ __forceinline__ void weigh(Scores& s, const float (&factor)[2], std::uint32_t base,
                                      std::uint8_t* memory, const Thread& thread, float (&sum)[2]) {
  const int own = 4 * thread.group + thread.lane % 4;
  const auto* keys = reinterpret_cast<const float4*>(memory + Shared<kDim>::kKeyFactors) + own;
  const auto* values = reinterpret_cast<const float2*>(memory + Shared<kDim>::kValueFactors) + own;
  const auto larger = [](float x, float y) { return fmaxf(x, y); };
  const auto plus = [](float x, float y) { return x + y; };
  float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < kOwnKeys / 8; ++n) {
    const float4 key = keys[4 * kGroups * n];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& first = s[4 * n + 2 * half];
      float& second = s[4 * n + 2 * half + 1];
      first = __fmaf_rn(first, key.x, key.y);
      second = __fmaf_rn(second, key.z, key.w);
      most[half] = fmaxf(most[half], fmaxf(first, second));
    }
  }
  leave(most, memory + Shared<kDim>::kRowMost, thread, larger);
  over_groups(most, memory + Shared<kDim>::kRowMost, thread, larger);  // and keys are read no more
  const float offset[2] = {-most[0] * factor[0], -most[1] * factor[1]};
  sum[0] = sum[1] = 0;
  // Chunk kGroups n + group of the row: eight keys.
  const std::uint32_t to = base + Shared<kDim>::kWeights +
                           (16 * thread.warp + thread.lane % 16) * 128 +
                           ((thread.lane % 8) ^ thread.group ^ thread.lane / 16 * kGroups) * 16;
#pragma unroll
  for (int pair = 0; pair < kOwnKeys / 16; ++pair) {
    std::uint32_t weights[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int n = 2 * pair + i;
      const float2 value = values[4 * kGroups * n];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x = power_of_two(__fmaf_rn(s[4 * n + 2 * half], factor[half], offset[half]));
        const float y =
            power_of_two(__fmaf_rn(s[4 * n + 2 * half + 1], factor[half], offset[half]));
        sum[half] += x + y;
        const __half2 both = __floats2half2_rn(x * value.x, y * value.y);
        weights[2 * i + half] = *reinterpret_cast<const std::uint32_t*>(&both);
      }
    }
    constexpr int kPerBlock = 8 / (2 * kGroups);  // pairs of a block of 64 keys
    store_matrices(
        (to ^ pair % kPerBlock * 2 * kGroups * 16) + pair / kPerBlock * Shared<kDim>::kTile,
        weights);
  }
  leave(sum, memory + Shared<kDim>::kRowSums, thread, plus);
  copy_wait<0>();
  fence_copies();
  over_groups(sum, memory + Shared<kDim>::kRowSums, thread, plus);  // weights and values are there
}

// Of this group's 64 dimensions: out[4 n + 2 half + i] of row `half`, 8 n + 2 (lane % 4) + i.
using Results = float[32];

template <int kDim>
__device__ __forceinline__ void add_values(std::uint32_t base, const Thread& thread, Results& out) {
  const std::uint64_t weights = swizzled_operand(base + Shared<kDim>::kWeights);
  const std::uint64_t values = transposed_operand(
      base + Shared<kDim>::kValues + thread.group * Products<kDim>::kBlockBytes, 0);
  products_fence();
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step)
    run_shared(out, weights + (step / 4 * Shared<kDim>::kTile + step % 4 * 32) / 16,
               values + step * 16 * 128 / 16, step > 0);
  products_commit();
  products_wait();
}

__device__ __forceinline__ void store_rows(const AttentionArgs& a, const Results& out, float* to,
                                           int n_dims, int half) {
  if (n_dims >= 64 && a.head_dim % 2 == 0) {
#pragma unroll
    for (int n = 0; n < 8; ++n)
      *reinterpret_cast<float2*>(to + 8 * n) = {out[4 * n + 2 * half], out[4 * n + 2 * half + 1]};
    return;
  }
  const int n_left = n_dims - 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (8 * n < n_left) to[8 * n] = out[4 * n + 2 * half];
    if (8 * n + 1 < n_left) to[8 * n + 1] = out[4 * n + 2 * half + 1];
  }
}

// This group's columns of the panel's rows, put together in shared memory as they lie in a block of
// the panel.
template <int kDim>
__device__ __forceinline__ void store_panel(const AttentionArgs& a, const Place& place,
                                            std::uint32_t head, const Results& out,
                                            unsigned largest_value, std::uint32_t base,
                                            const Thread& thread) {
  const float scale = row_scale(__uint_as_float(largest_value), 14);
  const float inverse = inverse_of(scale);
  const std::uint32_t first = place.span.q_begin + place.first;
  const std::uint32_t tile = base + Shared<kDim>::kTiles + thread.group * Shared<kDim>::kTile;
  const std::uint32_t row = 16 * thread.warp + thread.lane % 16;
  const std::uint32_t to = tile + row * 128 + ((first + row) % 8 ^ thread.lane / 16) * 16;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half2 both =
          __floats2half2_rn(out[8 * pair + 2 * i] * inverse, out[8 * pair + 2 * i + 1] * inverse);
      words[i] = *reinterpret_cast<const std::uint32_t*>(&both);
    }
    store_matrices(to ^ pair * 2 * 16, words);
  }
  fence_copies();
  thread.sync_group();
  const std::uint32_t n_rows = min(place.span.q_count - place.first, std::uint32_t{kGroupQueries});
  if (head == 0 && thread.number < n_rows) a.panel.row_scale[first + thread.number] = scale;
  if (thread.number % kGroupThreads != 0) return;
  const std::uint32_t block = head * (kDim / 64) + thread.group;
  store_bulk(a.panel.values +
                 (static_cast<std::uint64_t>(block) * a.panel.padded_rows + first) * kUnitCols,
             tile, n_rows * 128);
  stores_read();
}

#endif

template <int kDim>
__global__ void __launch_bounds__(kThreads, 2) attend_short(AttentionArgs a) {
#if defined(DLLM_WARPGROUPS)
  constexpr float kLeast = 1.17549435e-38f;
  extern __shared__ __align__(16) std::uint8_t shared[];
  const std::uint32_t base = (shared_address(shared) + Products<kDim>::kAlignment - 1) /
                             Products<kDim>::kAlignment * Products<kDim>::kAlignment;
  std::uint8_t* memory = shared + (base - shared_address(shared));
  const Thread thread;
  const std::uint32_t head = blockIdx.y * gridDim.z + blockIdx.z;
  const Place place = find_place(a, kGroupQueries);
  wait_for_predecessor();
  let_successor_start();
  if (!place.found || place.span.kv_count > kShortKeys) return;

  load_rows<kDim>(a, place.span, base, thread.number);
  OwnQueries<kDim> queries;
  queries.load(a, place, head, thread);
  const LargestScales largest = load_scales<kDim>(a, place.span, memory, thread);
  // Not 0, which would make NaN of scores that are hidden; of NaN NaN.
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    factor[half] = queries.factor[half] * __uint_as_float(largest.key);
    factor[half] = factor[half] < kLeast ? kLeast : factor[half];
  }
  copy_wait<1>();
  fence_copies();
  __syncthreads();
  Scores s;
  find_scores(queries, base, thread, s);
  float sum[2];
  weigh<kDim>(s, factor, base, memory, thread, sum);
  if (thread.group >= kDim / 64) return;
  Results out;
  add_values<kDim>(base, thread, out);
  float* rows = a.out.values + head * a.head_dim + 64 * thread.group + 2 * (thread.lane % 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float unit = __fdividef(1.0f, sum[half]) * __uint_as_float(largest.value);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      out[4 * n + 2 * half] *= unit;
      out[4 * n + 2 * half + 1] *= unit;
    }
    const std::uint32_t row = place.first + thread.row + 8 * half;
    if (row < place.span.q_count)
      store_rows(a, out, rows + static_cast<std::uint64_t>(place.span.q_begin + row) * a.out.n_cols,
                 static_cast<int>(a.head_dim) - 64 * thread.group, half);
  }
  if (a.panel.values) store_panel<kDim>(a, place, head, out, largest.all_values, base, thread);
#endif
}

template <int kDim>
void launch_short(const AttentionArgs& args, cudaStream_t stream) {
  constexpr int kBytes = Shared<kDim>::kBytes;
  cuda_check(
      cudaFuncSetAttribute(attend_short<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
      "asking for shared memory");
  const dim3 grid(args.out.n_rows / kGroupQueries + args.spans.n, args.k.n_heads,
                  args.q.n_heads / args.k.n_heads);
  launch("launching attention", attend_short<kDim>, grid, kThreads, kBytes, stream, args);
}

}  // namespace

void launch_short_attention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.q.stride == 64) return launch_short<64>(args, stream);
  launch_short<128>(args, stream);
}

const void* short_attention_kernel() { return reinterpret_cast<const void*>(attend_short<64>); }

}  // namespace dllm::cuda
