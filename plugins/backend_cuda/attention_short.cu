// Attention over up to kShortKeys keys: a block has 64 queries of a head and all their keys at
// once. Two warpgroups take every other eight keys for the scores, and 64 dimensions each of the
// values; weights meet in shared memory, between largest scores and sums of weights of both halves.
//
// Powers of two as in attention.cu, relative to the sequence's largest: keys' multiply scores,
// which then cannot overflow, values' multiply weights.
#include "attention_panel.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"

namespace dllm::cuda {
namespace {

using namespace short_attention;

#if defined(DLLM_WARPGROUPS)

// Rows of a head on their way to shared memory, zeros beyond the last. A thread keeps its 16-byte
// chunk of a row.
template <int kDim, int kRows>
struct RowCopies {
  static constexpr std::uint32_t kChunks = kDim / 8;
  static constexpr std::uint32_t kStep = kThreads / kChunks;  // rows
  static_assert(kStep % 8 == 0 && kRows % kStep == 0);

  const __half* from;
  std::uint32_t to;
  std::uint32_t first = threadIdx.x / kChunks;

  // From row `row` of a head to address `to`.
  __device__ __forceinline__ RowCopies(const HeadRows& rows, std::uint32_t head, std::uint32_t row,
                                       std::uint32_t to_address) {
    const std::uint32_t chunk = threadIdx.x % kChunks;
    from = rows.values + (static_cast<std::uint64_t>(head) * rows.n_rows + row + first) * kDim +
           chunk * 8;
    to = to_address + chunk / 8 * kRows * 128 + first * 128 + ((chunk ^ first) & 7) * 16;
  }

  __device__ __forceinline__ void start(std::uint32_t n_rows) const {
#pragma unroll
    for (std::uint32_t i = 0; i < kRows / kStep; ++i)
      copy_async(to + i * kStep * 128, from + i * kStep * kDim, first + i * kStep < n_rows);
  }
};

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

// Scales of this thread's key, and the largest. They are powers of two or NaN: as words they are in
// order, and NaN is above all numbers.
struct Scales {
  unsigned key = 0, value = 0;
  unsigned groups[kKeys / 32] = {};  // of the warp's group of heads
  LargestScales largest;

  const unsigned* key_at;
  const unsigned* value_at;
  const unsigned* group_at;

  __device__ __forceinline__ Scales(const AttentionArgs& a, const AttentionSpan& span,
                                    const Thread& thread) {
    const auto words = [](const float* scale) { return reinterpret_cast<const unsigned*>(scale); };
    const std::uint64_t row =
        static_cast<std::uint64_t>(blockIdx.y) * a.k.n_rows + span.kv_begin + thread.number;
    key_at = words(a.k.scale) + row;
    value_at = words(a.v.scale) + row;
    group_at = words(a.v.group_scale) +
               static_cast<std::uint64_t>(thread.number / 32) * a.v.n_rows + span.kv_begin +
               thread.lane;
  }

  // Of the warp's next group of heads.
  __device__ __forceinline__ void load_group(const AttentionArgs& a, const AttentionSpan& span,
                                             int lane) {
#pragma unroll
    for (int i = 0; i < kKeys / 32; ++i)
      if (lane + 32 * i < static_cast<int>(span.kv_count)) groups[i] = group_at[32 * i];
    group_at += static_cast<std::uint64_t>(kWarps) * a.v.n_rows;
  }

  __device__ __forceinline__ void load(const AttentionArgs& a, const AttentionSpan& span,
                                       const Thread& thread) {
    static_assert(kThreads >= kKeys);
    if (thread.number < span.kv_count) {
      key = *key_at;
      value = *value_at;
    }
    if (a.v.group_scale && thread.number / 32 < HeadRows::groups_of(a.v.n_heads))
      load_group(a, span, thread.lane);
  }

  __device__ __forceinline__ void find_largest(const AttentionArgs& a, const AttentionSpan& span,
                                               uint4* shared, const Thread& thread) {
    largest.key = key;
    largest.value = value;
    const std::uint32_t n_groups = a.v.group_scale ? HeadRows::groups_of(a.v.n_heads) : 0;
    std::uint32_t group = thread.number / 32;
#pragma unroll 1
    for (;;) {
#pragma unroll
      for (const unsigned each : groups) largest.all_values = max(largest.all_values, each);
      group += kWarps;
      if (group >= n_groups) break;
      load_group(a, span, thread.lane);
    }
    largest.over_block(shared, thread);
  }

  // Factors of this thread's key.
  template <int kDim>
  __device__ __forceinline__ void store(float scale, std::uint32_t n_keys, std::uint8_t* memory,
                                        const Thread& thread) const {
    if (thread.number >= kKeys) return;
    const bool exists = thread.number < n_keys;
    // Without any key, weights of 1 and values of 0.
    const float hides = exists || n_keys == 0 ? 0 : -INFINITY;
    const float sign = scale < 0 ? -1.0f : 1.0f;
    reinterpret_cast<float2*>(memory + Shared<kDim>::kKeyFactors)[thread.number] = {
        exists ? sign * part_of(key, largest.key) : 0, hides};
    reinterpret_cast<float*>(memory + Shared<kDim>::kValueFactors)[thread.number] =
        exists ? part_of(value, largest.value) : 0;
  }
};

// s[4 n + 2 half + i]: of row `half` and key 8 (kGroups n + group) + 2 (lane % 4) + i.
using Scores = float[kOwnKeys / 2];

// Scores of this group's keys, to be multiplied by the row's factor.
template <int kDim>
__device__ __forceinline__ void find_scores(std::uint32_t base, const Thread& thread, Scores& s) {
  const std::uint64_t queries = swizzled_operand(base + Shared<kDim>::kQueries);
  const std::uint64_t keys =
      swizzled_operand(base + Shared<kDim>::kKeyRows + thread.group * 1024, kGroups * 1024);
  products_fence();
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step)
    run_shared(s, queries + (step / 4 * Shared<kDim>::kTile + step % 4 * 32) / 16,
               keys + (step / 4 * Layout<kDim>::kBlockBytes + step % 4 * 32) / 16, step > 0);
  products_commit();
  products_wait();
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
  over_groups(most, memory + Shared<kDim>::kRowMost, thread, larger);
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
  // Then weights and values are there, too.
  over_groups(sum, memory + Shared<kDim>::kRowSums, thread, plus);
}

template <int kDim>
__device__ __forceinline__ void add_values(std::uint32_t base, const Thread& thread, Results& out) {
  const std::uint64_t weights = swizzled_operand(base + Shared<kDim>::kWeights);
  const std::uint64_t values = transposed_operand(
      base + Shared<kDim>::kValues + thread.group * Layout<kDim>::kBlockBytes, 0);
  products_fence();
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step)
    run_shared(out, weights + (step / 4 * Shared<kDim>::kTile + step % 4 * 32) / 16,
               values + step * 16 * 128 / 16, step > 0);
  products_commit();
  products_wait();
}

#endif

template <int kDim>
__global__ void __launch_bounds__(kThreads, 2) attend_short(AttentionArgs a) {
#if defined(DLLM_WARPGROUPS)
  constexpr float kLeast = 1.17549435e-38f;
  extern __shared__ __align__(Shared<kDim>::kAlignment) std::uint8_t memory[];
  const std::uint32_t base = shared_address(memory);
  const Thread thread;
  const std::uint32_t head = blockIdx.y * gridDim.z + blockIdx.z;
  const Place place = find_place(a, kGroupQueries);
  const AttentionSpan& span = place.span;
  const std::uint32_t first = span.q_begin + place.first;
  const std::uint32_t n_rows = min(span.q_count - place.first, std::uint32_t{kGroupQueries});
  const RowCopies<kDim, kGroupQueries> queries(a.q, head, first, base + Shared<kDim>::kQueries);
  const RowCopies<kDim, kKeys> keys(a.k, blockIdx.y, span.kv_begin, base + Shared<kDim>::kKeyRows);
  const RowCopies<kDim, kKeys> values(a.v, blockIdx.y, span.kv_begin, base + Shared<kDim>::kValues);
  const float* query_scale = a.q.scale + static_cast<std::uint64_t>(head) * a.q.n_rows + first;
  Scales scales(a, span, thread);
  wait_for_predecessor();
  let_successor_start();
  if (!place.found || place.span.kv_count > kShortKeys) return;

  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    factor[half] = query_scale[min(static_cast<std::uint32_t>(thread.row + 8 * half), n_rows - 1)];
  scales.load(a, span, thread);
  queries.start(n_rows);
  keys.start(span.kv_count);
  copy_commit();
  values.start(span.kv_count);
  copy_commit();
  scales.find_largest(a, span, reinterpret_cast<uint4*>(memory + Shared<kDim>::kLargest), thread);
  // Not 0, which would make NaN of scores that are hidden; of NaN NaN.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    factor[half] *= fabsf(a.scale);
    factor[half] *= __uint_as_float(scales.largest.key);
    factor[half] = factor[half] < kLeast ? kLeast : factor[half];
  }
  copy_wait<1>();
  fence_copies();
  __syncthreads();
  Scores s;
  find_scores<kDim>(base, thread, s);
  __syncthreads();  // queries and keys are read no more
  scales.store<kDim>(a.scale, span.kv_count, memory, thread);
  __syncthreads();
  float sum[2];
  weigh<kDim>(s, factor, base, memory, thread, sum);
  if (thread.group >= kDim / 64) return;
  Results out;
  add_values<kDim>(base, thread, out);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float unit = __fdividef(1.0f, sum[half]) * __uint_as_float(scales.largest.value);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      out[4 * n + 2 * half] *= unit;
      out[4 * n + 2 * half + 1] *= unit;
    }
  }
  bool stores = false;  // this thread, by the copy engine, while rows are stored
  if (a.v.group_scale) {
    const float scale = row_scale(__uint_as_float(scales.largest.all_values), kPanelExponent);
    round_steps(out, scale);
    if (a.panel.values)
      stores = store_panel<kDim>(a.panel, first, n_rows, head, out, scale, base, thread);
  }
  if constexpr (kDim == kInt8Cols)
    if (a.int8.codes)
      stores = store_int8_panel(a.int8, first, n_rows, head, out, base, memory, thread);
  store_rows(a, first, n_rows, head, out, thread);
  if (stores) stores_read();
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
