// What panels are made of: rows, rows whose sums are not added yet, silu(gate) * up; eight columns
// at a time.
#pragma once

#include <cstdint>

#include "device_rows.hpp"
#include "sums.cuh"

namespace dllm::cuda {

constexpr std::uint32_t kChunk = 8;  // columns: 16 bytes of a panel

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

}  // namespace dllm::cuda
