// Rows without filters, in one walk over their logits.
//
// reduce_tiles(): a block takes kTileIds ids of one row, a thread sixteen of them in registers, and
// leaves a TilePartial. finish_rows(): a warp adds a row's partials and writes the answer. Tiles
// depend on the vocabulary alone and partials are added in a fixed order, so a run repeats bit for
// bit.
#include "head_figures.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "reduce.cuh"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kTileIds = 4096;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kQuads = kTileIds / (4 * kThreads);  // of a thread: ids 4 (thread + 256 i) + {0..3}
constexpr int kValues = 4 * kQuads;

std::uint32_t n_tiles_of(std::uint32_t n_vocab) { return (n_vocab + kTileIds - 1) / kTileIds; }

// Larger logits, then lower ids, are larger keys.
__device__ __forceinline__ unsigned long long key_of(float l, std::uint32_t id) {
  const std::uint32_t bits = __float_as_uint(l);
  const std::uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(order) << 32 | (kNoId - id);
}

// The two largest of some values, and the id of the larger; of equal ones the lowest.
struct TwoLargest {
  float first = -INFINITY;
  float second = -INFINITY;
  std::uint32_t id = kNoId;

  /// `its_id` is above those before.
  __device__ __forceinline__ void add(float value, std::uint32_t its_id) {
    second = fmaxf(second, fminf(first, value));
    id = value > first ? its_id : id;
    first = fmaxf(first, value);
  }
  __device__ __forceinline__ void add(const TwoLargest& other) {
    second = fmaxf(fminf(first, other.first), fmaxf(second, other.second));
    id = other.first > first || (other.first == first && other.id < id) ? other.id : id;
    first = fmaxf(first, other.first);
  }
};

struct Exchange {
  TwoLargest largest[kWarps];
  double sums[kWarps], weighted[kWarps];
  float floats[32];
  Best bests[kWarps];
};

// kDraws: temperature is above 0 and a draw is wanted.
template <bool kDraws>
class Tile {
 public:
  __device__ __forceinline__ Tile(const HeadCall& call, const DeviceRow& row,
                                  const DeviceRequest& request, Exchange& shared)
      : call_(call),
        row_(row),
        request_(request),
        shared_(shared),
        first_(blockIdx.x * kTileIds),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  __device__ __forceinline__ void run(TilePartial& to) {
    const bool bad = __syncthreads_or(load()) != 0;
    hide(request_.suppress_both);
    TilePartial partial;
    partial.bad = bad ? 1 : 0;
    TwoLargest largest = find_largest();
    partial.argmax = largest.id;
    partial.argmax_logit = largest.first;
    partial.draw = {static_cast<double>(partial.argmax_logit), partial.argmax};
    partial.draw_logit = partial.argmax_logit;
    if constexpr (kDraws) draw(partial);
    if (request_.suppress_confidence.count > 0) {
      hide(request_.suppress_confidence);
      __syncthreads();  // the others have read what find_largest() writes
      largest = find_largest();
    }
    distribution(largest, partial);
    if (threadIdx.x == 0) to = partial;
  }

 private:
  __device__ __forceinline__ std::uint32_t id_of(int value) const {
    return first_ + 4 * (threadIdx.x + kThreads * (value / 4)) + value % 4;
  }

  // True where a logit is NaN or +inf.
  __device__ __forceinline__ bool load() {
    const float* logits =
        call_.logits + static_cast<std::uint64_t>(row_.logits_row) * call_.n_vocab;
    read(logits, values_);
    if (request_.guided) {
      float pair[kValues];
      read(call_.logits + static_cast<std::uint64_t>(row_.pair_row) * call_.n_vocab, pair);
#pragma unroll
      for (int i = 0; i < kValues; ++i) values_[i] = blended(request_, values_[i], pair[i]);
    }
    bool bad = false;
    const std::uint32_t n_ids =
        request_.allow_all ? call_.n_vocab : min(request_.n_tokens, call_.n_vocab);
    const auto mask = request_.allow_all ? kNoId : static_cast<std::uint32_t>(request_.mask_id);
    if (first_ + kTileIds <= n_ids && mask - first_ >= kTileIds) {  // all of the tile are asked for
#pragma unroll
      for (float& value : values_) {
        bad |= !(value < INFINITY);
        value += 0.0f;  // no -0: it ties with 0
      }
      return bad;
    }
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const std::uint32_t id = id_of(i);
      bad |= id < call_.n_vocab && !(values_[i] < INFINITY);
      values_[i] = id < n_ids && id != mask ? values_[i] + 0.0f : -INFINITY;
    }
    return bad;
  }

  __device__ __forceinline__ void read(const float* logits, float (&to)[kValues]) const {
    if (call_.n_vocab % 4 == 0 && first_ + kTileIds <= call_.n_vocab) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const float4 quad = __ldcs(reinterpret_cast<const float4*>(logits + id_of(4 * i)));
        to[4 * i] = quad.x;
        to[4 * i + 1] = quad.y;
        to[4 * i + 2] = quad.z;
        to[4 * i + 3] = quad.w;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kValues; ++i) to[i] = id_of(i) < call_.n_vocab ? logits[id_of(i)] : 0;
  }

  __device__ __forceinline__ void hide(IdRange range) {
    for (std::uint32_t n = 0; n < range.count; ++n) {
      const std::uint32_t place = static_cast<std::uint32_t>(call_.ids[range.first + n]) - first_;
      if (place >= kTileIds || place / 4 % kThreads != threadIdx.x) continue;
      const std::uint32_t value = place / (4 * kThreads) * 4 + place % 4;
#pragma unroll
      for (int i = 0; i < kValues; ++i)
        if (i == static_cast<int>(value)) values_[i] = -INFINITY;
    }
  }

  // Of the block.
  __device__ __forceinline__ TwoLargest find_largest() {
    TwoLargest largest;
#pragma unroll
    for (int i = 0; i < kValues; ++i) largest.add(values_[i], id_of(i));
    for (int offset = 16; offset > 0; offset /= 2)
      largest.add({__shfl_xor_sync(0xFFFFFFFFu, largest.first, offset),
                   __shfl_xor_sync(0xFFFFFFFFu, largest.second, offset),
                   __shfl_xor_sync(0xFFFFFFFFu, largest.id, offset)});
    if (lane_ == 0) shared_.largest[warp_] = largest;
    __syncthreads();
    largest = shared_.largest[0];
    for (int w = 1; w < kWarps; ++w) largest.add(shared_.largest[w]);
    return largest;
  }

  // argmax of z + g. First in f32, which is off by less than `margin`, then what is as near to the
  // largest as that, or is no number, exactly.
  __device__ __forceinline__ void draw(TilePartial& partial) {
    const float inverse = 1.0f / request_.temperature;
    float about[kValues];
    float most = -INFINITY;
    float widest = 0;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      std::uint32_t words[4];
      draw_words(request_, row_, id_of(4 * i) / 4, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float z = values_[4 * i + j] * inverse;
        about[4 * i + j] = z - logf(about_minus_log(words[j]));
        most = fmaxf(most, about[4 * i + j]);
        if (z != -INFINITY) widest = fmaxf(widest, fabsf(z));
      }
    }
    most = reduce_block(most, -INFINITY, Larger{}, shared_.floats);
    widest = reduce_block(widest, 0.0f, Larger{}, shared_.floats);
    const float margin = 1e-4f + 1e-6f * widest;
    Best best = {-INFINITY, kNoId};
    float logit = -INFINITY;
#pragma unroll
    for (int i = 0; i < kQuads; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float l = values_[4 * i + j];
        if (l == -INFINITY || about[4 * i + j] < most - margin) continue;
        std::uint32_t words[4];
        draw_words(request_, row_, id_of(4 * i) / 4, words);
        const Best exact = {noised(request_, l, words[j]), id_of(4 * i + j)};
        best = BetterDraw{}(best, exact);
      }
    for (int offset = 16; offset > 0; offset /= 2)
      best = BetterDraw{}(best, {__shfl_xor_sync(0xFFFFFFFFu, best.value, offset),
                                 __shfl_xor_sync(0xFFFFFFFFu, best.id, offset)});
    if (lane_ == 0) shared_.bests[warp_] = best;
    __syncthreads();
    for (const Best& each : shared_.bests) best = BetterDraw{}(best, each);
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      if (id_of(i) == best.id) logit = values_[i];
    partial.draw = best;
    partial.draw_logit = reduce_block(logit, -INFINITY, Larger{}, shared_.floats);
  }

  // -ln((word + 0.5) / 2^32), to a few units of f32's last place.
  static __device__ __forceinline__ float about_minus_log(std::uint32_t word) {
    constexpr float kUnit = 1.0f / 4294967296.0f;
    if (word < 0x80000000u) return -logf((static_cast<float>(word) + 0.5f) * kUnit);
    return -log1pf(-(static_cast<float>(~word) + 0.5f) * kUnit);
  }

  // exp(d) is 2^t of t = d log2(e): ex2.approx is off by 2^-22 at most, the product by 2^-24 of t,
  // which is less where the term matters (|t| < 16: 2^-20) than what the f32 logits are off by.
  __device__ __forceinline__ void distribution(const TwoLargest& largest, TilePartial& partial) {
    constexpr float kLog2E = 1.44269504088896341f;
    constexpr double kLn2 = 0.693147180559945309;
    constexpr float kLeast = -256.0f;  // 2^t is 0 there; keeps 0 * t from being 0 * infinity
    partial.d.top = largest.first;
    partial.d.second = largest.second;
    if (largest.first == -INFINITY) return;

    const float scale = fminf(request_.inverse_temperature * kLog2E, 3.4e38f);
    double sum = 0;
    double weighted = 0;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      float quad_sum = 0;
      float quad_weighted = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float t = fmaxf((values_[4 * i + j] - largest.first) * scale, kLeast);
        float e;
        asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(e) : "f"(t));
        quad_sum += e;
        quad_weighted = fmaf(e, t, quad_weighted);
      }
      sum += static_cast<double>(quad_sum);
      weighted += static_cast<double>(quad_weighted);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
      weighted += __shfl_xor_sync(0xFFFFFFFFu, weighted, offset);
    }
    if (lane_ == 0) {
      shared_.sums[warp_] = sum;
      shared_.weighted[warp_] = weighted;
    }
    __syncthreads();
    partial.d.sum = shared_.sums[0];
    partial.d.weighted = shared_.weighted[0];
    for (int w = 1; w < kWarps; ++w) {
      partial.d.sum += shared_.sums[w];
      partial.d.weighted += shared_.weighted[w];
    }
    partial.d.weighted *= kLn2;
  }

  const HeadCall& call_;
  const DeviceRow& row_;
  const DeviceRequest& request_;
  Exchange& shared_;
  std::uint32_t first_;
  int lane_;
  int warp_;
  float values_[kValues];
};

// A kernel each for rows that draw and rows that do not: the latter need half the registers. Which
// takes a row depends on the row alone.
template <bool kDraws>
__global__ void __launch_bounds__(kThreads, kDraws ? 2 : 5) reduce_tiles(HeadCall call) {
  __shared__ Exchange shared;
  wait_for_predecessor();
  let_successor_start();
  const DeviceRow row = call.rows[blockIdx.y];
  const DeviceRequest request = call.requests[row.request];
  if (request.whole || request.draws != kDraws) return;
  Tile<kDraws>(call, row, request, shared)
      .run(call.partials[static_cast<std::uint64_t>(blockIdx.y) * gridDim.x + blockIdx.x]);
}

__device__ __forceinline__ double from_lane(double value, int offset) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, offset);
}

__device__ void add_partial(TilePartial& to, const TilePartial& other, float inverse_temperature) {
  to.bad |= other.bad;
  if (key_of(other.argmax_logit, other.argmax) > key_of(to.argmax_logit, to.argmax)) {
    to.argmax = other.argmax;
    to.argmax_logit = other.argmax_logit;
  }
  const Best better = BetterDraw{}(to.draw, other.draw);
  if (better.id != to.draw.id) to.draw_logit = other.draw_logit;
  to.draw = better;
  to.d.add(other.d, inverse_temperature);
}

__device__ TilePartial from_lane(const TilePartial& p, int offset) {
  constexpr unsigned kAll = 0xFFFFFFFFu;
  TilePartial to;
  to.d.top = __shfl_xor_sync(kAll, p.d.top, offset);
  to.d.second = __shfl_xor_sync(kAll, p.d.second, offset);
  to.d.sum = from_lane(p.d.sum, offset);
  to.d.weighted = from_lane(p.d.weighted, offset);
  to.draw = {from_lane(p.draw.value, offset), __shfl_xor_sync(kAll, p.draw.id, offset)};
  to.draw_logit = __shfl_xor_sync(kAll, p.draw_logit, offset);
  to.argmax = __shfl_xor_sync(kAll, p.argmax, offset);
  to.argmax_logit = __shfl_xor_sync(kAll, p.argmax_logit, offset);
  to.bad = __shfl_xor_sync(kAll, p.bad, offset);
  return to;
}

// A logit as D sees it.
__device__ float logit_in_distribution(const HeadCall& call, const DeviceRow& row,
                                       const DeviceRequest& request, std::uint32_t id) {
  if (id >= call.n_vocab) return -INFINITY;
  if (!request.allow_all &&
      (id >= request.n_tokens || id == static_cast<std::uint32_t>(request.mask_id)))
    return -INFINITY;
  if (is_listed(call, request.suppress_both, id) ||
      is_listed(call, request.suppress_confidence, id))
    return -INFINITY;
  const float l = call.logits[static_cast<std::uint64_t>(row.logits_row) * call.n_vocab + id];
  if (!request.guided) return l;
  return blended(request, l,
                 call.logits[static_cast<std::uint64_t>(row.pair_row) * call.n_vocab + id]);
}

__global__ void __launch_bounds__(32) finish_rows(HeadCall call, std::uint32_t n_tiles) {
  wait_for_predecessor();
  let_successor_start();
  const std::uint32_t lane = threadIdx.x;
  const DeviceRow row = call.rows[blockIdx.x];
  const DeviceRequest request = call.requests[row.request];
  if (request.whole) return;
  const float inverse = request.inverse_temperature;
  TilePartial whole;
  for (std::uint32_t tile = lane; tile < n_tiles; tile += 32)
    add_partial(whole, call.partials[static_cast<std::uint64_t>(blockIdx.x) * n_tiles + tile],
                inverse);
  for (int offset = 16; offset > 0; offset /= 2)
    add_partial(whole, from_lane(whole, offset), inverse);

  RowAnswer answer;
  answer.non_finite = whole.bad != 0 || whole.argmax_logit == -INFINITY ? 1 : 0;
  if (answer.non_finite == 0) {
    answer.argmax = static_cast<std::int32_t>(whole.argmax);
    answer.sampled = static_cast<std::int32_t>(whole.draw.id);
    write_figures(call, request, whole.d, whole.draw.id, whole.draw_logit, answer);
  }
  if (lane == 0) call.answers[blockIdx.x] = answer;
  float* prob_of = call.prob_of + static_cast<std::uint64_t>(blockIdx.x) * call.prob_of_stride;
  for (std::uint32_t j = lane; j < request.prob_of.count; j += 32) {
    const auto id = static_cast<std::uint32_t>(call.ids[request.prob_of.first + j]);
    const float l = logit_in_distribution(call, row, request, id);
    prob_of[j] = answer.non_finite != 0 ? 0 : static_cast<float>(whole.d.probability(l, inverse));
  }
}

}  // namespace

std::uint64_t head_partial_bytes(std::uint32_t n_vocab) {
  return n_tiles_of(n_vocab) * sizeof(TilePartial);
}

void launch_streamed_rows(const HeadCall& call, std::uint32_t n_rows, RowKinds kinds,
                          cudaStream_t stream) {
  const std::uint32_t n_tiles = n_tiles_of(call.n_vocab);
  const dim3 grid(n_tiles, n_rows);
  if (kinds.greedy)
    launch("launching reduce_tiles", reduce_tiles<false>, grid, kThreads, 0, stream, call);
  if (kinds.drawn)
    launch("launching reduce_tiles", reduce_tiles<true>, grid, kThreads, 0, stream, call);
  launch("launching finish_rows", finish_rows, n_rows, 32, 0, stream, call, n_tiles);
}

const void* head_stream_kernel() { return reinterpret_cast<const void*>(finish_rows); }

}  // namespace dllm::cuda
