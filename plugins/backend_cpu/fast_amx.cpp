// The fast products with AMX int8 tiles.
//
// A tile register holds 16 rows of 64 bytes. CodeTile::codes is what the multiplication wants of
// weights (for 64 inputs 16 lines of four inputs of every weight row), a row of a panel what it
// wants of activations. Two tiles of activations times two of weights go into four tiles of sums,
// over the four quarters of a block; the sums are stored and scaled by AVX-512 while the next four
// tiles are multiplied. Sums are exact, so a row's result does not depend on what shares its tile.
//
// Tile registers: 0 to 3 sums [activation tile][weight half], 4 and 5 activations, 6 and 7 weights.
// All tile instructions are inline assembly that says which memory it reads and writes: g++ 12's
// intrinsics do not, and stores to memory only they read are dropped.
#include "kernels.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "fast_avx512.inl"

#define DLLM_INLINE inline __attribute__((always_inline))

constexpr uint32_t kRegisterRows = 16;
constexpr uint32_t kRowsAtOnce = 2 * kRegisterRows;
constexpr uint32_t kStepCols = 64;
constexpr uint32_t kSteps = kBlockCols / kStepCols;
static_assert(kRowsAtOnce == kFastRowSlack && kTileRows == 2 * kRegisterRows);

// Intel SDM volume 1, "Tile configuration".
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

void enter() {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = kStepCols;
    config.rows[i] = kRegisterRows;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

void leave() { asm volatile("tilerelease"); }

template <int kRegister>
DLLM_INLINE void load_tile(const void* from, uint64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(stride), "i"(kRegister)
               : "memory");
}
template <int kRegister>
DLLM_INLINE void store_tile(void* to, uint64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(stride), "i"(kRegister)
               : "memory");
}
template <int kRegister>
DLLM_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kRegister));
}
template <int kSum, int kActivations, int kWeights>
DLLM_INLINE void multiply_tiles() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSum), "i"(kActivations), "i"(kWeights));
}

struct alignas(64) Sums {
  int32_t at[kRowsAtOnce][kTileRows];
};

// A stretch of at most kRowsAtOnce rows whose sums wait to be scaled.
struct Waiting {
  const Sums* sums;
  const float* scales;
  float* acc;
  uint32_t n_rows;
};

// Rows [first, first + count) of what waits.
DLLM_INLINE void scale_rows(const CodeTile& tile, const Waiting& waiting, uint32_t first,
                            uint32_t count) {
  const uint32_t end = first + count < waiting.n_rows ? first + count : waiting.n_rows;
  const __m512 low = _mm512_load_ps(tile.row_scale);
  const __m512 high = _mm512_load_ps(tile.row_scale + 16);
  for (uint32_t r = first; r < end; ++r) {
    const __m512 scale = _mm512_set1_ps(waiting.scales[r]);
    const int32_t* sums = waiting.sums->at[r];
    float* out = waiting.acc + static_cast<uint64_t>(r) * kTileRows;
    _mm512_store_ps(out, _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums)),
                                         _mm512_mul_ps(low, scale), _mm512_load_ps(out)));
    _mm512_store_ps(out + 16,
                    _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums + 16)),
                                    _mm512_mul_ps(high, scale), _mm512_load_ps(out + 16)));
  }
}

// Sums of 16 kTiles rows of activations; scales what waits in between.
template <int kTiles>
DLLM_INLINE void multiply_rows(const CodeTile& tile, const int8_t* codes, const Waiting& waiting,
                               Sums& sums) {
  zero_tile<0>();
  zero_tile<1>();
  if constexpr (kTiles == 2) {
    zero_tile<2>();
    zero_tile<3>();
  }
#pragma GCC unroll 4
  for (uint32_t step = 0; step < kSteps; ++step) {
    const uint8_t* weights = tile.codes[step * (kStepCols / 4)][0];
    load_tile<6>(weights, 4 * kTileRows);
    load_tile<4>(codes + step * kStepCols, kBlockCols);
    load_tile<7>(weights + kStepCols, 4 * kTileRows);
    multiply_tiles<0, 4, 6>();
    multiply_tiles<1, 4, 7>();
    if constexpr (kTiles == 2) {
      load_tile<5>(codes + kRegisterRows * kBlockCols + step * kStepCols, kBlockCols);
      multiply_tiles<2, 5, 6>();
      multiply_tiles<3, 5, 7>();
    }
    scale_rows(tile, waiting, step * (kRowsAtOnce / kSteps), kRowsAtOnce / kSteps);
  }
  constexpr uint64_t kStride = sizeof(sums.at[0]);
  store_tile<0>(sums.at[0], kStride);
  store_tile<1>(sums.at[0] + kRegisterRows, kStride);
  if constexpr (kTiles == 2) {
    store_tile<2>(sums.at[kRegisterRows], kStride);
    store_tile<3>(sums.at[kRegisterRows] + kRegisterRows, kStride);
  }
}

void multiply(const CodeTile& tile, const FastBlock& first, uint32_t n_rows, float* acc) {
  Sums sums[2];
  Waiting waiting = {};
  for (uint32_t r = 0; r < n_rows; r += kRowsAtOnce) {
    Sums& to = sums[r / kRowsAtOnce % 2];
    const int8_t* codes = first.codes + static_cast<uint64_t>(r) * kBlockCols;
    const uint32_t rows = n_rows - r < kRowsAtOnce ? n_rows - r : kRowsAtOnce;
    if (rows > kRegisterRows) {
      multiply_rows<2>(tile, codes, waiting, to);
    } else {
      multiply_rows<1>(tile, codes, waiting, to);
    }
    waiting = {&to, first.scales + r, acc + static_cast<uint64_t>(r) * kTileRows, rows};
  }
  scale_rows(tile, waiting, 0, waiting.n_rows);
}

// A block of 512 rows takes about 8 microseconds to multiply and as long to come from the
// third-level cache; four tiles leave a quarter of that.
constexpr uint32_t kPassTiles = 4;

constexpr FastKernels kTable = {is_k_type,      requantise<false>, unpack<false>,
                                quantise_block, multiply,          enter,
                                leave,          kPassTiles};

}  // namespace

const FastKernels* amx_fast() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const FastKernels* amx_fast() { return nullptr; }
}  // namespace dllm::cpu

#endif
