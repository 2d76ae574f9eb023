// Products of AMX tiles, of int8 codes or BF16 values. Included inside an unnamed namespace, after
// kernels.hpp and with vector.inl's names in reach; needs no instruction but those of the tiles, so
// that a test can run it on any x86-64 processor that emulates them.
//
// CodeTile::codes and BrainTile::pairs are what the
// multiplication wants of weights (16 lines of four bytes of every weight row for 64 bytes of
// input), a row of a panel what it wants of activations. Two tiles of activations times two of
// weights go into four tiles of sums, over all inputs of a block; the sums are stored and scaled by
// vector instructions while the next four tiles are multiplied. A row's result does not depend on
// what shares its tile.
//
// Tile registers: 0 to 3 sums [activation tile][weight half], 4 and 5 activations, 6 and 7 weights.

#include "tile_registers.inl"

constexpr uint32_t kRowsAtOnce = 2 * kRegisterRows;
static_assert(kRowsAtOnce == kFastRowSlack && kTileRows == 2 * kRegisterRows);

// Signed bytes into 32-bit integers.
struct CodeProducts {
  static constexpr uint32_t kRowBytes = kBlockCols;
  template <int kSum, int kActivations, int kWeights>
  DLLM_LANES static void multiply() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSum), "i"(kActivations), "i"(kWeights));
  }
  // out += sum * row_scale * scales[row].
  const float* row_scale;
  const float* scales;
  DLLM_LANES void add(const int32_t* sums, uint32_t row, float* out) const {
    typedef int32_t Integers __attribute__((vector_size(4 * kLanes)));
    typedef float Floats __attribute__((vector_size(4 * kLanes)));
    for (uint32_t i = 0; i < kTileRows; i += kLanes) {
      Integers words;
      __builtin_memcpy(&words, sums + i, sizeof words);
      const F sum = reinterpret_cast<F>(__builtin_convertvector(words, Floats));
      store(out + i, fused(sum, load(row_scale + i) * splat(scales[row]), load(out + i)));
    }
  }
  DLLM_LANES CodeProducts from(uint32_t row) const { return {row_scale, scales + row}; }
};

// BF16 pairs into f32.
struct BrainProducts {
  static constexpr uint32_t kRowBytes = 2 * kBlockCols;
  template <int kSum, int kActivations, int kWeights>
  DLLM_LANES static void multiply() {
    multiply_brains<kSum, kActivations, kWeights>();
  }
  DLLM_LANES void add(const int32_t* sums, uint32_t, float* out) const {
    const auto* values = reinterpret_cast<const float*>(sums);
    for (uint32_t i = 0; i < kTileRows; i += kLanes)
      store(out + i, load(out + i) + load(values + i));
  }
  DLLM_LANES BrainProducts from(uint32_t) const { return {}; }
};

struct alignas(64) Sums {
  int32_t at[kRowsAtOnce][kTileRows];
};

// A stretch of at most kRowsAtOnce rows whose sums wait to be added.
template <typename Products>
struct Waiting {
  const Sums* sums;
  Products products;
  float* acc;
  uint32_t n_rows;
};

// Rows [first, first + count) of what waits.
template <typename Products>
DLLM_LANES void add_rows(const Waiting<Products>& waiting, uint32_t first, uint32_t count) {
  const uint32_t end = first + count < waiting.n_rows ? first + count : waiting.n_rows;
  for (uint32_t r = first; r < end; ++r)
    waiting.products.add(waiting.sums->at[r], r, waiting.acc + uint64_t{r} * kTileRows);
}

// Sums of 16 kTiles rows of activations; adds what waits in between.
template <int kTiles, typename Products>
DLLM_LANES void multiply_tile_rows(const uint8_t* weights, const uint8_t* rows,
                                   const Waiting<Products>& waiting, Sums& sums) {
  constexpr uint64_t kRowBytes = Products::kRowBytes;
  constexpr uint32_t kSteps = kRowBytes / kStepBytes;
  constexpr uint64_t kLine = 4 * kTileRows;  // of weights
  zero_tile<0>();
  zero_tile<1>();
  if constexpr (kTiles == 2) {
    zero_tile<2>();
    zero_tile<3>();
  }
#pragma GCC unroll 8
  for (uint32_t step = 0; step < kSteps; ++step, weights += kRegisterRows * kLine) {
    load_tile<6>(weights, kLine);
    load_tile<4>(rows + step * kStepBytes, kRowBytes);
    load_tile<7>(weights + kStepBytes, kLine);
    Products::template multiply<0, 4, 6>();
    Products::template multiply<1, 4, 7>();
    if constexpr (kTiles == 2) {
      load_tile<5>(rows + kRegisterRows * kRowBytes + step * kStepBytes, kRowBytes);
      Products::template multiply<2, 5, 6>();
      Products::template multiply<3, 5, 7>();
    }
    add_rows(waiting, step * (kRowsAtOnce / kSteps), kRowsAtOnce / kSteps);
  }
  constexpr uint64_t kStride = sizeof(sums.at[0]);
  store_tile<0>(sums.at[0], kStride);
  store_tile<1>(sums.at[0] + kRegisterRows, kStride);
  if constexpr (kTiles == 2) {
    store_tile<2>(sums.at[kRegisterRows], kStride);
    store_tile<3>(sums.at[kRegisterRows] + kRegisterRows, kStride);
  }
}

template <typename Products>
void multiply_with_tiles(const void* weights, const void* rows, uint32_t n_rows,
                         const Products& products, float* acc) {
  const auto* lines = static_cast<const uint8_t*>(weights);
  Sums sums[2];
  Waiting<Products> waiting = {sums, products, acc, 0};
  for (uint32_t r = 0; r < n_rows; r += kRowsAtOnce) {
    Sums& to = sums[r / kRowsAtOnce % 2];
    const uint8_t* from = static_cast<const uint8_t*>(rows) + uint64_t{r} * Products::kRowBytes;
    const uint32_t n = n_rows - r < kRowsAtOnce ? n_rows - r : kRowsAtOnce;
    if (n > kRegisterRows) {
      multiply_tile_rows<2>(lines, from, waiting, to);
    } else {
      multiply_tile_rows<1>(lines, from, waiting, to);
    }
    waiting = {&to, products.from(r), acc + uint64_t{r} * kTileRows, n};
  }
  add_rows(waiting, 0, waiting.n_rows);
}

inline void multiply_code_tile(const CodeTile& tile, const FastBlock& first, uint32_t n_rows,
                               float* acc) {
  multiply_with_tiles(tile.codes, first.codes, n_rows, CodeProducts{tile.row_scale, first.scales},
                      acc);
}

inline void multiply_brain_tile(const BrainTile& tile, const uint16_t* rows, uint32_t n_rows,
                                float* acc) {
  multiply_with_tiles(tile.pairs, rows, n_rows, BrainProducts{}, acc);
}
