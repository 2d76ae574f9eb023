// Bytes of one block of each quantised type, as they lie in a GGUF file.
//
//   BlockQ4K block;
//   std::memcpy(&block, row + i * sizeof block, sizeof block);
//   float d = f16_to_f32(load_u16(block.d));
//
// Every member is bytes, so a block has no padding and may start at any address. Multi-byte fields
// are little-endian. "lo" and "hi" are a byte's low and high nibble. Formulas: quant.hpp's
// decoders. Source: ggml `ggml-common.h`, block_*. Thread rule: values.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace dllm {

/// An IEEE binary16 at any address.
using HalfBytes = std::array<std::uint8_t, 2>;

inline std::uint16_t load_u16(const HalfBytes& bytes) noexcept {
  return static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8);
}

inline constexpr std::uint32_t kQuantBlock = 32;    ///< elements per block of the legacy types
inline constexpr std::uint32_t kQuantBlockK = 256;  ///< elements per block of the K types

struct BlockQ4_0 {
  HalfBytes d;
  std::array<std::uint8_t, 16> qs;  ///< lo: elements 0..15, hi: 16..31
};
struct BlockQ4_1 {
  HalfBytes d, m;
  std::array<std::uint8_t, 16> qs;
};
struct BlockQ5_0 {
  HalfBytes d;
  std::array<std::uint8_t, 4> qh;  ///< bit i: fifth bit of element i
  std::array<std::uint8_t, 16> qs;
};
struct BlockQ5_1 {
  HalfBytes d, m;
  std::array<std::uint8_t, 4> qh;
  std::array<std::uint8_t, 16> qs;
};
struct BlockQ8_0 {
  HalfBytes d;
  std::array<std::int8_t, 32> qs;
};
struct BlockIq4Nl {
  HalfBytes d;
  std::array<std::uint8_t, 16> qs;  ///< indices into kIq4Values
};
struct BlockQ2K {
  std::array<std::uint8_t, 16> scales;  ///< lo: scale, hi: minimum, of 16 elements each
  std::array<std::uint8_t, 64> qs;
  HalfBytes d, dmin;
};
struct BlockQ3K {
  std::array<std::uint8_t, 32> hmask;
  std::array<std::uint8_t, 64> qs;
  std::array<std::uint8_t, 12> scales;  ///< 16 six-bit scales
  HalfBytes d;
};
struct BlockQ4K {
  HalfBytes d, dmin;
  std::array<std::uint8_t, 12> scales;  ///< 8 six-bit scales and 8 six-bit minima
  std::array<std::uint8_t, 128> qs;
};
struct BlockQ5K {
  HalfBytes d, dmin;
  std::array<std::uint8_t, 12> scales;
  std::array<std::uint8_t, 32> qh;
  std::array<std::uint8_t, 128> qs;
};
struct BlockQ6K {
  std::array<std::uint8_t, 128> ql;
  std::array<std::uint8_t, 64> qh;
  std::array<std::int8_t, 16> scales;
  HalfBytes d;
};
struct BlockIq4Xs {
  HalfBytes d;
  std::array<std::uint8_t, 2> scales_h;
  std::array<std::uint8_t, 4> scales_l;
  std::array<std::uint8_t, 128> qs;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockIq4Nl) == 18);
static_assert(sizeof(BlockQ2K) == 84 && sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144);
static_assert(sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210 && sizeof(BlockIq4Xs) == 136);

/// Values of the sixteen IQ4_NL and IQ4_XS codes. Source: ggml `ggml-common.h`, kvalues_iq4nl.
inline constexpr std::array<std::int8_t, 16> kIq4Values = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Six-bit scale and minimum of sub-block `j` (0..7) of a Q4_K or Q5_K block.
/// Source: ggml `ggml-quants.c`, get_scale_min_k4.
struct ScaleMin {
  std::uint8_t scale, minimum;
};
inline ScaleMin scale_min_k4(const std::array<std::uint8_t, 12>& b, unsigned j) noexcept {
  if (j < 4) {
    return {static_cast<std::uint8_t>(b[j] & 63), static_cast<std::uint8_t>(b[j + 4] & 63)};
  }
  return {static_cast<std::uint8_t>((b[j + 4] & 15) | (b[j - 4] >> 6) << 4),
          static_cast<std::uint8_t>((b[j + 4] >> 4) | (b[j] >> 6) << 4)};
}

/// Six-bit scale of sub-block `k` (0..15) of a Q3_K block, before 32 is taken off.
/// Source: ggml `ggml-quants.c`, dequantize_row_q3_K.
inline std::uint8_t scale_q3k(const std::array<std::uint8_t, 12>& b, unsigned k) noexcept {
  const unsigned low = k < 8 ? b[k] & 15U : b[k - 8] >> 4;
  const unsigned high = b[8 + k % 4] >> (2 * (k / 4)) & 3U;
  return static_cast<std::uint8_t>(low | high << 4);
}

}  // namespace dllm
