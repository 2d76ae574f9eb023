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

#include "tile_registers.inl"

constexpr uint32_t kRowsAtOnce = 2 * kRegisterRows;
static_assert(kRowsAtOnce == kFastRowSlack && kTileRows == 2 * kRegisterRows);
static_assert(kCodeRows == kRegisterRows && kCodeCols == kStepBytes);

// Signed bytes into 32-bit integers.
struct CodeProducts {
  static constexpr uint32_t kRowBytes = kBlockCols;
  static constexpr uint64_t kRowStride = kCodeCols;  // whole tiles
  static constexpr uint64_t kStepStride = kCodeRows * kCodeCols;
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
struct BrainProducts : BrainTiles {
  static constexpr uint32_t kRowBytes = 2 * kBlockCols;
  static constexpr uint64_t kRowStride = kRowBytes;
  static constexpr uint64_t kStepStride = kStepBytes;
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

// The inputs of a step of a stretch of rows.
template <typename Products>
DLLM_LANES TileInputs inputs_of(const uint8_t* weights, const uint8_t* rows, uint32_t step) {
  constexpr uint64_t kLine = 4 * kTileRows;  // of weights
  rows += step * Products::kStepStride;
  weights += step * kRegisterRows * kLine;
  return {{rows, rows + kRegisterRows * Products::kRowBytes},
          Products::kRowStride,
          {weights, weights + kStepBytes},
          kLine};
}

// Sums of kRowsAtOnce rows of activations, whose first step is loaded, then loads that of `next`;
// adds what waits in between.
template <typename Products>
DLLM_LANES void multiply_tile_rows(const uint8_t* weights, const uint8_t* rows, const uint8_t* next,
                                   const Waiting<Products>& waiting, Sums& sums) {
  constexpr uint32_t kSteps = Products::kRowBytes / kStepBytes;
  constexpr uint32_t kAdded = kRowsAtOnce / kSteps;
  static_assert(kSteps % 2 == 0);
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
#pragma GCC unroll 4
  for (uint32_t step = 0; step < kSteps; step += 2) {
    multiply_inputs<Products, false>(inputs_of<Products>(weights, rows, step + 1));
    add_rows(waiting, step * kAdded, kAdded);
    multiply_inputs<Products, true>(step + 2 < kSteps ? inputs_of<Products>(weights, rows, step + 2)
                                                      : inputs_of<Products>(weights, next, 0));
    add_rows(waiting, (step + 1) * kAdded, kAdded);
  }
  constexpr uint64_t kStride = sizeof(sums.at[0]);
  store_tile<0>(sums.at[0], kStride);
  store_tile<1>(sums.at[0] + kRegisterRows, kStride);
  store_tile<2>(sums.at[kRegisterRows], kStride);
  store_tile<3>(sums.at[kRegisterRows] + kRegisterRows, kStride);
}

template <typename Products>
void multiply_with_tiles(const void* weights, const void* rows, uint32_t n_rows,
                         const Products& products, float* acc) {
  const auto* lines = static_cast<const uint8_t*>(weights);
  const auto* from = static_cast<const uint8_t*>(rows);
  Sums sums[2];
  Waiting<Products> waiting = {sums, products, acc, 0};
  load_inputs(inputs_of<Products>(lines, from, 0));
  for (uint32_t r = 0; r < n_rows; r += kRowsAtOnce) {
    Sums& to = sums[r / kRowsAtOnce % 2];
    const uint32_t n = n_rows - r < kRowsAtOnce ? n_rows - r : kRowsAtOnce;
    const uint8_t* next = r + n < n_rows ? from + kRowsAtOnce * Products::kRowBytes : from;
    multiply_tile_rows(lines, from, next, waiting, to);
    waiting = {&to, products.from(r), acc + uint64_t{r} * kTileRows, n};
    from = next;
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
