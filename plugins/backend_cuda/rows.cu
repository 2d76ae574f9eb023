// Look-up, norm, gate and copies. A block owns one row of the output, or of a look-up 256 columns
// of it; threads stride over the columns, where a panel is written over chunks of eight.
#include "block_codes.cuh"
#include "int8_panel.hpp"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "reduce.cuh"
#include "row_scale.cuh"
#include "rows.hpp"
#include "sums.cuh"

namespace dllm::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kPanelThreads = 512;
constexpr int kInt8Threads = 256;
constexpr int kEmbedThreads = 256;
constexpr std::uint32_t kChunk = 8;  // columns: 16 bytes of a panel

// Of a row's largest value in the panel: binary16 then holds the row with 11 significant bits down
// to 2^-27 of it.
constexpr int kPanelExponent = 13;

__global__ void embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                      std::uint32_t n_table_rows, const std::int32_t* ids, Rows out) {
  wait_for_predecessor();
  let_successor_start();
  const std::int32_t id = ids[blockIdx.x];
  const std::uint32_t k = blockIdx.y * blockDim.x + threadIdx.x;
  if (k >= out.n_cols) return;
  const bool valid = id >= 0 && static_cast<std::uint32_t>(id) < n_table_rows;
  out.values[static_cast<std::uint64_t>(blockIdx.x) * out.n_cols + k] =
      valid ? row_value(dtype, table + id * row_bytes, k) : nanf("");
}

struct Chunk {
  float values[kChunk];

  // Columns [first, first + 8) of a row; zeros beyond its end. `kEven`: the row has all of them.
  template <bool kEven = false>
  __device__ __forceinline__ void load(const float* row, std::uint32_t first,
                                       std::uint32_t n_cols) {
    if (kEven || (n_cols % 4 == 0 && first + kChunk <= n_cols)) {
      const auto* from = reinterpret_cast<const float4*>(row + first);
      const float4 a = from[0];
      const float4 b = from[1];
      const float all[kChunk] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
      for (std::uint32_t i = 0; i < kChunk; ++i) values[i] = all[i];
      return;
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kChunk; ++i) values[i] = first + i < n_cols ? row[first + i] : 0;
  }

  template <bool kEven>
  __device__ __forceinline__ void store(float* row, std::uint32_t first,
                                        std::uint32_t n_cols) const {
    if (kEven || (n_cols % 4 == 0 && first + kChunk <= n_cols)) {
      auto* to = reinterpret_cast<float4*>(row + first);
      to[0] = {values[0], values[1], values[2], values[3]};
      to[1] = {values[4], values[5], values[6], values[7]};
      return;
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kChunk; ++i)
      if (first + i < n_cols) row[first + i] = values[i];
  }

  // Sum of squares; in double where f32 cannot hold it.
  __device__ __forceinline__ double square() const {
    float sum = 0;
#pragma unroll
    for (const float value : values) sum += value * value;
    if (sum > 1e-30f && sum < INFINITY) [[likely]]
      return static_cast<double>(sum);
    double exact = 0;
#pragma unroll
    for (const float value : values)
      exact += static_cast<double>(value) * static_cast<double>(value);
    return exact;
  }
};

// The row's sum of squares; of what `source` makes of it the same where it is asked for, and its
// largest value (NaN where one is).
struct RowSize {
  double squares = 0;
  double source_squares = 0;
  unsigned largest = 0;  // its bits: absolute values are in order so, and NaN is above all numbers

  __device__ __forceinline__ void look(float value) {
    largest = max(largest, __float_as_uint(value) & 0x7FFFFFFFu);
  }
};

// What panels are made of. load() is for the first walk over a row, again() for the second.
// `kEven`: rows are a multiple of 16 long and held by a block, so that nothing else has to be asked
// or fetched.

// x, times the norm's weights where there are some.
template <bool kEvenRows>
struct Plain {
  static constexpr bool kEven = kEvenRows;
  Rows x;
  const float* norm;
  using Ahead = Chunk;  // what no kernel writes and is read before waiting for those before

  __device__ __forceinline__ Ahead ahead(std::uint32_t first) const {
    Chunk weights;
    if (norm) weights.load<kEven>(norm, first, x.n_cols);
    return weights;
  }
  __device__ __forceinline__ Chunk load(std::uint32_t first, const Ahead& weights,
                                        RowSize* size) const {
    Chunk chunk;
    chunk.load<kEven>(row(), first, x.n_cols);
    return weighed(chunk, weights, size);
  }
  __device__ __forceinline__ Chunk again(std::uint32_t first, const Ahead& weights) const {
    return load(first, weights, nullptr);
  }

  __device__ __forceinline__ float* row() const {
    return x.values + static_cast<std::uint64_t>(blockIdx.x) * x.n_cols;
  }
  __device__ __forceinline__ Chunk weighed(Chunk chunk, const Ahead& weights, RowSize* size) const {
    if (!norm) return chunk;
    if (size) size->squares += chunk.square();
#pragma unroll
    for (std::uint32_t i = 0; i < kChunk; ++i) chunk.values[i] *= weights.values[i];
    return chunk;
  }
};

// The same of rows whose sums are not added yet: the first walk adds them and stores the row.
// `kParts`: of the sums; 0: any number.
template <int kParts, bool kEvenRows>
struct Summed {
  static constexpr bool kEven = kEvenRows;
  Plain<kEven> plain;
  Sums sums;
  struct Ahead {
    Chunk weights;
    const float* parts;
  };

  __device__ __forceinline__ Ahead ahead(std::uint32_t first) const {
    return {plain.ahead(first), sums.parts + sums.place(blockIdx.x, first)};
  }
  __device__ __forceinline__ Chunk load(std::uint32_t first, const Ahead& ahead,
                                        RowSize* size) const {
    const std::uint32_t n_cols = plain.x.n_cols;
    const float scale = scale_of(sums, blockIdx.x);
    Chunk chunk = {};
    if (sums.adds) chunk.load<kEven>(plain.row(), first, n_cols);
    const Eight total = total_of<kParts>(sums, ahead.parts);
    Chunk bias = {};
    if (sums.bias) bias.load<kEven>(sums.bias, first, n_cols);
#pragma unroll
    for (std::uint32_t i = 0; i < kChunk; ++i)
      chunk.values[i] += total.values[i] * scale + bias.values[i];
    chunk.store<kEven>(plain.row(), first, n_cols);
    return plain.weighed(chunk, ahead.weights, size);
  }
  __device__ __forceinline__ Chunk again(std::uint32_t first, const Ahead& ahead) const {
    return plain.again(first, ahead.weights);
  }
};

// silu(gate) * up.
struct Gated {
  static constexpr bool kEven = false;
  Rows gate;
  Rows up;
  struct Ahead {};

  __device__ __forceinline__ Ahead ahead(std::uint32_t) const { return {}; }
  __device__ __forceinline__ Chunk load(std::uint32_t first, Ahead, RowSize*) const {
    const std::uint64_t row = static_cast<std::uint64_t>(blockIdx.x) * gate.n_cols;
    Chunk chunk;
    Chunk other;
    chunk.load(gate.values + row, first, gate.n_cols);
    other.load(up.values + row, first, gate.n_cols);
#pragma unroll
    for (std::uint32_t i = 0; i < kChunk; ++i)
      chunk.values[i] = chunk.values[i] / (1.0f + expf(-chunk.values[i])) * other.values[i];
    return chunk;
  }
  __device__ __forceinline__ Chunk again(std::uint32_t first, Ahead ahead) const {
    return load(first, ahead, nullptr);
  }
};

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

__global__ void copy_rows(Rows from, const std::int32_t* rows, Rows to) {
  wait_for_predecessor();
  let_successor_start();
  const float* source = from.values + static_cast<std::uint64_t>(rows[blockIdx.x]) * from.n_cols;
  float* target = to.values + static_cast<std::uint64_t>(blockIdx.x) * to.n_cols;
  for (std::uint32_t k = threadIdx.x; k < to.n_cols; k += blockDim.x) target[k] = source[k];
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

void launch_embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                  std::uint32_t n_table_rows, const std::int32_t* ids, Rows out,
                  cudaStream_t stream) {
  const dim3 grid(out.n_rows, (out.n_cols + kEmbedThreads - 1) / kEmbedThreads);
  launch("launching embed", embed, grid, kEmbedThreads, 0, stream, dtype, table, row_bytes,
         n_table_rows, ids, out);
}

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

void launch_copy_rows(Rows from, const std::int32_t* rows, Rows to, cudaStream_t stream) {
  launch("launching copy_rows", copy_rows, to.n_rows, kThreads, 0, stream, from, rows, to);
}

const void* rows_kernel() { return reinterpret_cast<const void*>(copy_rows); }

}  // namespace dllm::cuda
