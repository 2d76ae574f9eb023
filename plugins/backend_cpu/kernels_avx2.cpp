// Kernels for AVX2 with FMA and F16C.
#include "kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "codes_avx2.inl"
#include "half.inl"
#include "row_math.inl"
#include "signed_codes_avx2.inl"
#include "unpack.inl"

// Offset in the GGUF block of the super-block's scale d: scale = d * integer. No such type: none.
constexpr uint32_t kNoSuperScale = ~0u;
uint32_t super_scale_offset(CodeType type) {
  switch (type) {
    case CodeType::q2_k:
      return 80;
    case CodeType::q3_k:
      return 108;
    case CodeType::q4_k:
    case CodeType::q5_k:
      return 0;
    case CodeType::q6_k:
      return 208;
    default:
      return kNoSuperScale;
  }
}

// scale_codes = scale / d, which is an integer of at most eight bits and d's product exact, twice
// per row: once for each 16-bit half of a lane.
void fill_scale_codes(const uint8_t* d, CodeTile& tile) {
  halves(d, tile.row_scale);
  const uint32_t n_groups = tile.n_groups32 * (tile.half_groups ? 2 : 1);
  for (uint32_t lane = 0; lane < kTileRows; lane += 8) {
    const __m256 scale = _mm256_load_ps(tile.row_scale + lane);
    const __m256 is_zero = _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_EQ_OQ);
    const __m256 inverse = _mm256_andnot_ps(is_zero, _mm256_div_ps(_mm256_set1_ps(1), scale));
    for (uint32_t g = 0; g < n_groups; ++g) {
      const __m256i code =
          _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_load_ps(tile.scale[g] + lane), inverse));
      const __m256i twice = _mm256_blend_epi16(code, _mm256_slli_epi32(code, 16), 0xAA);
      _mm256_store_si256(reinterpret_cast<__m256i*>(tile.scale_codes[g][lane]), twice);
    }
  }
}

void unpack_codes(CodeType type, const WeightBlock& block, CodeTile& tile) {
  unpack_tile(type, block, tile);
  const uint32_t offset = super_scale_offset(type);
  tile.has_scale_codes = offset != kNoSuperScale;
  if (tile.has_scale_codes) fill_scale_codes(field(block.data, offset), tile);
}

// Columns: parts, integer scale, half groups, centred, minimums.
constexpr Recipe kQ4 = {1, false, false, false, Minimums::groups};
constexpr Recipe kQ4K = {1, true, false, false, Minimums::groups};
constexpr Recipe kQ5 = {2, false, false, false, Minimums::groups};
constexpr Recipe kQ5K = {2, true, false, false, Minimums::groups};
constexpr Recipe kQ3K = {2, true, true, false, Minimums::halves};
constexpr Recipe kQ6K = {2, true, true, true, Minimums::none};

void multiply_codes(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                    uint32_t n_rows, float* acc) {
  const bool narrow = tile.code_bits <= 4;
  const auto multiply = tile.is_signed     ? multiply_signed
                        : tile.half_groups ? (narrow ? multiply_block<kQ3K> : multiply_block<kQ6K>)
                        : tile.has_scale_codes
                            ? (narrow ? multiply_block<kQ4K> : multiply_block<kQ5K>)
                            : (narrow ? multiply_block<kQ4> : multiply_block<kQ5>);
  multiply(tile, panel, group_stride, n_rows, acc);
}

// The sums of half_sum() in place of sum16.
void keep_pairs(ActivationGroup* out) {
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(out->codes));
  __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4E));
  pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xB1));
  const int32_t words[2] = {_mm256_extract_epi32(pairs, 0), _mm256_extract_epi32(pairs, 4)};
  __builtin_memcpy(out->sum16, words, sizeof words);
}

constexpr Kernels kTable = {"avx2",
                            unpack_codes,
                            multiply_codes,
                            row_math::multiply_floats,
                            row_math::widen_floats,
                            row_math_keeping<keep_pairs>()};

}  // namespace

const Kernels* avx2_kernels() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace dllm::cpu

#endif
