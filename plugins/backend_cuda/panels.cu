// Inputs of products, in their form: a norm, sums that are not added yet, a gate. A block owns one
// row; threads stride over its columns, eight at a time.
#include <type_traits>
#include <utility>

#include "kernel_loading.hpp"
#include "launch.cuh"
#include "panel_sources.cuh"
#include "panels.hpp"
#include "row_scale.cuh"

namespace dllm::cuda {
namespace {

constexpr int kPanelThreads = 512;

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

__device__ __forceinline__ RowSize over_block(RowSize size, bool has_sources, RowSize* shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    size = over_warp(size, has_sources);
    if (round == 1) break;
    if (lane == 0) shared[threadIdx.x / 32] = size;
    __syncthreads();
    size = lane < kPanelThreads / 32 ? shared[lane] : RowSize{};
  }
  return size;
}

// Rounding on the way adds less than a hundredth. What f32 cannot hold is not finite in the end.
__device__ __forceinline__ float product_scale(double bound) {
  constexpr double kMost = 3.4028234663852886e38;
  return row_scale(static_cast<float>(isfinite(bound) ? fmin(1.01 * bound, kMost) : bound), 14);
}

// Inputs [k, k + 8) of the block's row.
__device__ __forceinline__ void store(const Panel& panel, std::uint32_t k, const Chunk& chunk,
                                      float factor, float inverse) {
  std::uint32_t words[kChunk / 2];
#pragma unroll
  for (std::uint32_t i = 0; i < kChunk / 2; ++i) {
    const __half2 both = __floats2half2_rn(chunk.values[2 * i] * factor * inverse,
                                           chunk.values[2 * i + 1] * factor * inverse);
    words[i] = *reinterpret_cast<const std::uint32_t*>(&both);
  }
  *reinterpret_cast<uint4*>(panel.values + panel.at(blockIdx.x, k)) = {words[0], words[1], words[2],
                                                                       words[3]};
}

// The same, by all lanes of a warp: 16 neighbours, or all, have what shares a step.
__device__ __forceinline__ void store(const Int8Panel& panel, std::uint32_t k, const Chunk& chunk,
                                      float factor) {
  constexpr int kLanes = kInt8Cols / kChunk;
  static_assert(kGatedStepCols == 32 * kChunk);
  RowSize size;
#pragma unroll
  for (const float value : chunk.values) size.look(value * factor);
#pragma unroll
  for (int offset = 1; offset < kLanes; offset *= 2)
    size.largest = max(size.largest, __shfl_xor_sync(0xFFFFFFFFu, size.largest, offset));
  if (panel.step_cols == kGatedStepCols)
    size.largest = max(size.largest, __shfl_xor_sync(0xFFFFFFFFu, size.largest, kLanes));
  if (k >= int8_blocks(panel.n_cols) * kInt8Cols) return;
  const Int8Step step(__uint_as_float(size.largest));
  unsigned codes[kChunk];
#pragma unroll
  for (std::uint32_t i = 0; i < kChunk; ++i)
    codes[i] = int8_code(chunk.values[i] * factor, step.inverse);
  *reinterpret_cast<uint2*>(panel.codes + panel.at(blockIdx.x, k) + k % 16) = {
      four_codes(codes[0], codes[1], codes[2], codes[3]),
      four_codes(codes[4], codes[5], codes[6], codes[7])};
  if (k % kInt8Cols == 0) panel.steps[panel.block_row(blockIdx.x, k)] = step.step;
}

// Two walks over the row. A thread keeps its first kHeld chunks, the second walk finds the rest in
// the cache.
template <typename Source, int kHeld, typename AnyPanel>
__global__ void __launch_bounds__(kPanelThreads, Source::kEven ? 2 : 1)
    fill_panel(Source source, bool has_norm, float eps, double per_col, AnyPanel panel,
               ProductScale products) {
  __shared__ RowSize shared[kPanelThreads / 32];
  constexpr bool kInt8 = std::is_same_v<AnyPanel, Int8Panel>;
  constexpr std::uint32_t kStep = kChunk * kPanelThreads;
  const std::uint32_t first = kChunk * threadIdx.x;
  const std::uint32_t n_cols = panel.n_cols;
  typename Source::Ahead ahead[kHeld] = {};
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first + i * kStep < n_cols) ahead[i] = source.ahead(first + i * kStep);
  wait_for_predecessor();
  let_successor_start();
  RowSize size;
  const auto look = [&](const Chunk& chunk) {
    if constexpr (!kInt8) {
#pragma unroll
      for (const float value : chunk.values) size.look(value);
    }
    if (products.scale) size.source_squares += chunk.square();
  };
  Chunk held[kHeld] = {};
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first + i * kStep < n_cols) held[i] = source.load(first + i * kStep, ahead[i], &size);
#pragma unroll
  for (const Chunk& chunk : held) look(chunk);
  if constexpr (!Source::kEven)
    for (std::uint32_t k = first + kHeld * kStep; k < n_cols; k += kStep)
      look(source.load(k, source.ahead(k), &size));
  if (!kInt8 || has_norm) size = over_block(size, products.scale != nullptr, shared);
  float factor = 1;
  if (has_norm)
    factor = static_cast<float>(rsqrt(size.squares * per_col + static_cast<double>(eps)));
  const float scale = row_scale(__uint_as_float(size.largest) * factor, kPanelExponent);
  const float inverse = inverse_of(scale);
  const auto store_chunk = [&](const Chunk& chunk, std::uint32_t k) {
    if constexpr (kInt8) {
      store(panel, k, chunk, factor);
    } else {
      store(panel, k, chunk, factor, inverse);
    }
  };
  // Of int8 whole warps take part, as far as there are blocks.
  const std::uint32_t end = kInt8 ? (n_cols + 32 * kChunk - 1) / (32 * kChunk) * (32 * kChunk)
                                  : Panel::padded_cols(n_cols);
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first + i * kStep < end) store_chunk(held[i], first + i * kStep);
  if constexpr (!Source::kEven)
    for (std::uint32_t k = first + kHeld * kStep; k < end; k += kStep)
      store_chunk(source.again(k, source.ahead(k)), k);
  if (threadIdx.x != 0) return;
  if constexpr (!kInt8) panel.row_scale[blockIdx.x] = scale;
  if (products.scale)
    products.scale[blockIdx.x] =
        product_scale(products.factor * size.source_squares * factor * factor);
}

template <int kHeld, typename Source>
void launch_fill(const char* what, const Source& source, std::uint32_t n_rows, std::uint32_t n_cols,
                 bool has_norm, float eps, const Inputs& panel, ProductScale products,
                 cudaStream_t stream) {
  const auto fill = [&](const auto& to) {
    launch(what, fill_panel<Source, kHeld, std::decay_t<decltype(to)>>, n_rows, kPanelThreads, 0,
           stream, source, has_norm, eps, 1.0 / n_cols, to, products);
  };
  if (panel.int8.codes) return fill(panel.int8);
  fill(panel.f16);
}

// Rows of a feed-forward layer, of which a thread holds several chunks.
template <typename Source>
void launch_fill_wide(const char* what, const Source& source, std::uint32_t n_rows,
                      std::uint32_t n_cols, const Inputs& panel, cudaStream_t stream) {
  const auto fill =
      n_cols <= 3 * kChunk * kPanelThreads ? launch_fill<3, Source> : launch_fill<5, Source>;
  fill(what, source, n_rows, n_cols, false, 0, panel, {}, stream);
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

void launch_prepare(const SummedRows& x, const float* norm, float eps, const Inputs& panel,
                    cudaStream_t stream, ProductScale products) {
  const auto [n_rows, n_cols] = std::pair(x.rows.n_rows, x.rows.n_cols);
  if (!norm && x.sums.n == 0 && n_cols > kChunk * kPanelThreads)
    return launch_fill_wide("launching prepare", Plain<false>{x.rows, nullptr}, n_rows, n_cols,
                            panel, stream);
  with_source(x, norm, [&](const auto& source) {
    launch_fill<1>("launching prepare", source, n_rows, n_cols, norm != nullptr, eps, panel,
                   products, stream);
  });
}

void launch_swiglu(Rows gate, Rows up, const Inputs& panel, cudaStream_t stream) {
  launch_fill_wide("launching swiglu", Gated{gate, up}, gate.n_rows, gate.n_cols, panel, stream);
}

const void* panels_kernel() { return reinterpret_cast<const void*>(fill_panel<Gated, 3, Panel>); }

}  // namespace dllm::cuda
