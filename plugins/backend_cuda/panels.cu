// Inputs of products, in their form: a norm, sums that are not added yet, a gate. A block owns one
// row; threads stride over its columns, eight at a time.
#include "int8_panel.hpp"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "panel_sources.cuh"
#include "reduce.cuh"
#include "row_scale.cuh"
#include "rows.hpp"

namespace dllm::cuda {
namespace {

constexpr int kPanelThreads = 512;
constexpr int kInt8Threads = 256;

// Of a row's largest value in the panel: binary16 then holds the row with 11 significant bits down
// to 2^-27 of it.
constexpr int kPanelExponent = 13;

// Loops stay loops: a kernel this short waits for its instructions more than for anything else.
__device__ __forceinline__ RowSize over_warp(RowSize size, bool has_sources) {
  constexpr unsigned kAll = 0xFFFFFFFFu;
#pragma unroll 1
  for (int offset = 16; offset > 0; offset /= 2) {
    size.squares += __shfl_xor_sync(kAll, size.squares, offset);
    if (has_sources) size.source_squares += __shfl_xor_sync(kAll, size.source_squares, offset);
  }
#if __CUDA_ARCH__ >= 800
  size.largest = __reduce_max_sync(kAll, size.largest);
#endif
  return size;
}

template <int kBlockThreads>
__device__ __forceinline__ RowSize over_block(RowSize size, bool has_sources, RowSize* shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    size = over_warp(size, has_sources);
    if (round == 1) break;
    if (lane == 0) shared[threadIdx.x / 32] = size;
    __syncthreads();
    size = lane < kBlockThreads / 32 ? shared[lane] : RowSize{};
  }
  return size;
}

// Rounding on the way adds less than a hundredth. What f32 cannot hold is not finite in the end.
__device__ __forceinline__ float product_scale(double bound) {
  constexpr double kMost = 3.4028234663852886e38;
  return row_scale(static_cast<float>(isfinite(bound) ? fmin(1.01 * bound, kMost) : bound), 14);
}

// Two walks over the row. A thread keeps its first kHeld chunks, the second walk finds the rest in
// the cache.
template <typename Source, int kHeld>
__global__ void __launch_bounds__(kPanelThreads, Source::kEven ? 2 : 1)
    fill_panel(Source source, bool has_norm, float eps, double per_col, Panel panel,
               ProductScale products) {
  __shared__ RowSize shared[kPanelThreads / 32];
  constexpr std::uint32_t kStep = kChunk * kPanelThreads;
  const std::uint32_t first = kChunk * threadIdx.x;
  typename Source::Ahead ahead[kHeld] = {};
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first + i * kStep < panel.n_cols) ahead[i] = source.ahead(first + i * kStep);
  wait_for_predecessor();
  let_successor_start();
  RowSize size;
  const auto look = [&](const Chunk& chunk) {
#pragma unroll
    for (const float value : chunk.values) size.look(value);
    if (products.scale) size.source_squares += chunk.square();
  };
  Chunk held[kHeld] = {};
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first + i * kStep < panel.n_cols) held[i] = source.load(first + i * kStep, ahead[i], &size);
#pragma unroll
  for (const Chunk& chunk : held) look(chunk);
  if constexpr (!Source::kEven)
    for (std::uint32_t k = first + kHeld * kStep; k < panel.n_cols; k += kStep)
      look(source.load(k, source.ahead(k), &size));
  size = over_block<kPanelThreads>(size, products.scale != nullptr, shared);
  float factor = 1;
  if (has_norm)
    factor = static_cast<float>(rsqrt(size.squares * per_col + static_cast<double>(eps)));
  const float scale = row_scale(__uint_as_float(size.largest) * factor, kPanelExponent);
  const float inverse = inverse_of(scale);
  const auto store = [&](const Chunk& chunk, std::uint32_t k) {
    std::uint32_t words[kChunk / 2];
#pragma unroll
    for (std::uint32_t i = 0; i < kChunk / 2; ++i) {
      const __half2 both = __floats2half2_rn(chunk.values[2 * i] * factor * inverse,
                                             chunk.values[2 * i + 1] * factor * inverse);
      words[i] = *reinterpret_cast<const std::uint32_t*>(&both);
    }
    *reinterpret_cast<uint4*>(panel.values + panel.at(blockIdx.x, k)) = {words[0], words[1],
                                                                         words[2], words[3]};
  };
  const std::uint32_t n_cols = Panel::padded_cols(panel.n_cols);
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first + i * kStep < n_cols) store(held[i], first + i * kStep);
  if constexpr (!Source::kEven)
    for (std::uint32_t k = first + kHeld * kStep; k < n_cols; k += kStep)
      store(source.again(k, source.ahead(k)), k);
  if (threadIdx.x != 0) return;
  panel.row_scale[blockIdx.x] = scale;
  if (products.scale)
    products.scale[blockIdx.x] =
        product_scale(products.factor * size.source_squares * factor * factor);
}

// 16 inputs of a row; eight neighbouring lanes have what shares a step.
struct Sixteen {
  Chunk low;
  Chunk high;

  template <typename Source>
  __device__ __forceinline__ void load(const Source& source, std::uint32_t first, RowSize* size) {
    low = source.load(first, source.ahead(first), size);
    high = source.load(first + kChunk, source.ahead(first + kChunk), size);
  }
  template <typename Source>
  __device__ __forceinline__ void again(const Source& source, std::uint32_t first) {
    low = source.again(first, source.ahead(first));
    high = source.again(first + kChunk, source.ahead(first + kChunk));
  }

  __device__ __forceinline__ float value(std::uint32_t i) const {
    return i < kChunk ? low.values[i] : high.values[i - kChunk];
  }

  // Inputs [k, k + 16) of the block's row, by all lanes of a warp.
  __device__ __forceinline__ void store(const Int8Panel& panel, std::uint32_t k,
                                        float factor) const {
    constexpr int kLanes = kInt8Cols / (2 * kChunk);
    float largest = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < 2 * kChunk; ++i)
      largest = Larger{}(fabsf(value(i) * factor), largest);
#pragma unroll
    for (int offset = 1; offset < kLanes; offset *= 2)
      largest = Larger{}(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
    if (k >= int8_blocks(panel.n_cols) * kInt8Cols) return;
    const Int8Step step(largest);
    std::uint32_t words[4] = {};
#pragma unroll
    for (std::uint32_t i = 0; i < 16; ++i) {
      const int code = __float2int_rn(value(i) * factor * step.inverse);  // of NaN: 0
      words[i / 4] |= (static_cast<std::uint32_t>(code) & 255) << 8 * (i % 4);
    }
    *reinterpret_cast<uint4*>(panel.codes + panel.at(blockIdx.x, k)) = {words[0], words[1],
                                                                        words[2], words[3]};
    if (k % kInt8Cols == 0) panel.steps[panel.block_row(blockIdx.x, k)] = step.step;
  }
};

// As fill_panel(): a thread takes 16 inputs at a time, and whole warps every turn.
template <typename Source, int kHeld>
__global__ void __launch_bounds__(kInt8Threads)
    fill_int8_panel(Source source, bool has_norm, float eps, Int8Panel panel) {
  __shared__ RowSize shared[kInt8Threads / 32];
  wait_for_predecessor();
  let_successor_start();
  constexpr std::uint32_t kStep = 2 * kChunk * kInt8Threads;
  const std::uint32_t first = 2 * kChunk * threadIdx.x;
  RowSize size;
  Sixteen held[kHeld] = {};
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first + i * kStep < panel.n_cols) held[i].load(source, first + i * kStep, &size);
  float factor = 1;
  if (has_norm) {
    Sixteen seen;
    for (std::uint32_t k = first + kHeld * kStep; k < panel.n_cols; k += kStep)
      seen.load(source, k, &size);
    size = over_block<kInt8Threads>(size, false, shared);
    factor = static_cast<float>(1.0 / sqrt(size.squares / panel.n_cols + static_cast<double>(eps)));
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) held[i].store(panel, first + i * kStep, factor);
  const std::uint32_t warp_first = first - 2 * kChunk * (threadIdx.x % 32);
  for (std::uint32_t at = kHeld * kStep; warp_first + at < panel.n_cols; at += kStep) {
    Sixteen inputs = {};
    if (first + at < panel.n_cols) {
      if (has_norm) {
        inputs.again(source, first + at);
      } else {
        inputs.load(source, first + at, nullptr);
      }
    }
    inputs.store(panel, first + at, factor);
  }
}

// The usual rows, and four parts of their sums, have kernels of fewer instructions.
template <typename With>
void with_source(const SummedRows& x, const float* norm, const With& with) {
  const bool even = x.rows.n_cols % (2 * kChunk) == 0 && x.rows.n_cols <= kChunk * kPanelThreads;
  const Plain<true> usual = {x.rows, norm};
  const Plain<false> any = {x.rows, norm};
  if (x.sums.n == 0) return even ? with(usual) : with(any);
  if (even && x.sums.n == 4) return with(Summed<4, true>{usual, x.sums});
  with(Summed<0, false>{any, x.sums});
}

}  // namespace

void launch_prepare(const SummedRows& x, const float* norm, float eps, Panel panel,
                    cudaStream_t stream, ProductScale products) {
  with_source(x, norm, [&](const auto& source) {
    launch("launching prepare", fill_panel<std::decay_t<decltype(source)>, 1>, x.rows.n_rows,
           kPanelThreads, 0, stream, source, norm != nullptr, eps, 1.0 / x.rows.n_cols, panel,
           products);
  });
}

void launch_swiglu(Rows gate, Rows up, Panel panel, cudaStream_t stream) {
  const auto kernel =
      gate.n_cols <= 3 * kChunk * kPanelThreads ? fill_panel<Gated, 3> : fill_panel<Gated, 5>;
  launch("launching swiglu", kernel, gate.n_rows, kPanelThreads, 0, stream, Gated{gate, up}, false,
         0.0f, 0.0, panel, ProductScale{});
}

void launch_prepare(const SummedRows& x, const float* norm, float eps, const Int8Panel& panel,
                    cudaStream_t stream) {
  with_source(x, norm, [&](const auto& source) {
    launch("launching prepare", fill_int8_panel<std::decay_t<decltype(source)>, 1>, x.rows.n_rows,
           kInt8Threads, 0, stream, source, norm != nullptr, eps, panel);
  });
}

const void* panels_kernel() { return reinterpret_cast<const void*>(fill_panel<Gated, 3>); }

}  // namespace dllm::cuda
