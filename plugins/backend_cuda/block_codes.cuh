// GGUF blocks on the device: code, scale and minimum of one element. Used while packing and to look
// up embedding rows; layouts: dllm/quant_blocks.hpp, formulas: core's decoders (ggml
// `ggml-quants.c`, dequantize_row_*). Speed does not matter here; being the same as the decoders
// does.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "dllm/dtype.hpp"
#include "dllm/quant_blocks.hpp"

namespace dllm::cuda {

struct Affine {
  float scale;
  float minimum;  // 0 where the form has none
};

__device__ inline float half_at(const std::uint8_t* p) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(p[0] | p[1] << 8)));
}

__device__ inline int nibble(std::uint8_t byte, int high) { return high ? byte >> 4 : byte & 15; }

__device__ inline int iq4_level(int index) {  // ggml `ggml-common.h`, kvalues_iq4nl
  constexpr signed char kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
  return kLevels[index];
}

// Six-bit scale or minimum of sub-block j of Q4_K and Q5_K.
__device__ inline int k4_scale(const std::uint8_t* b, int j) {
  return j < 4 ? b[j] & 63 : (b[j + 4] & 15) | (b[j - 4] >> 6) << 4;
}
__device__ inline int k4_minimum(const std::uint8_t* b, int j) {
  return j < 4 ? b[j + 4] & 63 : (b[j + 4] >> 4) | (b[j] >> 6) << 4;
}

__host__ __device__ constexpr int block_cols(DType dtype) {
  switch (dtype) {
    case DType::q2_k:
    case DType::q3_k:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
    case DType::iq4_xs:
      return kQuantBlockK;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return 1;
    default:
      return kQuantBlock;
  }
}

__host__ __device__ constexpr int block_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::q4_0:
      return sizeof(BlockQ4_0);
    case DType::q4_1:
      return sizeof(BlockQ4_1);
    case DType::q5_0:
      return sizeof(BlockQ5_0);
    case DType::q5_1:
      return sizeof(BlockQ5_1);
    case DType::q8_0:
      return sizeof(BlockQ8_0);
    case DType::q2_k:
      return sizeof(BlockQ2K);
    case DType::q3_k:
      return sizeof(BlockQ3K);
    case DType::q4_k:
      return sizeof(BlockQ4K);
    case DType::q5_k:
      return sizeof(BlockQ5K);
    case DType::q6_k:
      return sizeof(BlockQ6K);
    case DType::iq4_nl:
      return sizeof(BlockIq4Nl);
    case DType::iq4_xs:
      return sizeof(BlockIq4Xs);
    default:
      return 0;
  }
}

/// Code of element k of a block as its form stores it (unsigned, offset added).
__device__ inline int block_code(DType dtype, const std::uint8_t* b, int k) {
  const int sub = k / 32;
  const int l = k % 32;
  switch (dtype) {
    case DType::q4_0:
      return nibble(b[2 + l % 16], l / 16);
    case DType::q4_1:
      return nibble(b[4 + l % 16], l / 16);
    case DType::q5_0:
      return nibble(b[6 + l % 16], l / 16) | (b[2 + l / 8] >> l % 8 & 1) << 4;
    case DType::q5_1:
      return nibble(b[8 + l % 16], l / 16) | (b[4 + l / 8] >> l % 8 & 1) << 4;
    case DType::q8_0:
      return static_cast<signed char>(b[2 + l]) + 128;
    case DType::iq4_nl:
      return iq4_level(nibble(b[2 + l % 16], l / 16)) + 128;
    case DType::iq4_xs:
      return iq4_level(nibble(b[8 + 16 * sub + l % 16], l / 16)) + 128;
    case DType::q2_k:
      return b[16 + 32 * (k / 128) + l] >> 2 * (sub % 4) & 3;
    case DType::q3_k: {
      const int low = b[32 + 32 * (k / 128) + l] >> 2 * (sub % 4) & 3;
      return (low | (b[l] >> sub & 1) << 2) + 4;  // stored 0..7 means -4..3; the form's offset is 8
    }
    case DType::q4_k:
      return nibble(b[16 + 32 * (sub / 2) + l], sub % 2);
    case DType::q5_k:
      return nibble(b[48 + 32 * (sub / 2) + l], sub % 2) | (b[16 + l] >> sub & 1) << 4;
    case DType::q6_k: {
      const int plane = sub % 4;
      const int low = nibble(b[64 * (k / 128) + 32 * (plane % 2) + l], plane / 2);
      const int code = low | (b[128 + 32 * (k / 128) + l] >> 2 * plane & 3) << 4;
      return code + 96;  // stored 0..63 means -32..31; the form's offset is 128
    }
    default:
      return 0;
  }
}

/// Scale and minimum of element k of a block.
__device__ inline Affine block_affine(DType dtype, const std::uint8_t* b, int k) {
  const int sub16 = k / 16;
  const int sub32 = k / 32;
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
      return {half_at(b), half_at(b + 2)};
    case DType::q2_k:
      return {half_at(b + 80) * static_cast<float>(b[sub16] & 15),
              -(half_at(b + 82) * static_cast<float>(b[sub16] >> 4))};
    case DType::q3_k: {
      const std::uint8_t* s = b + 96;
      const int low = sub16 < 8 ? s[sub16] & 15 : s[sub16 - 8] >> 4;
      const int six = low | (s[8 + sub16 % 4] >> 2 * (sub16 / 4) & 3) << 4;
      return {half_at(b + 108) * static_cast<float>(six - 32), 0};
    }
    case DType::q4_k:
    case DType::q5_k:
      return {half_at(b) * static_cast<float>(k4_scale(b + 4, sub32)),
              -(half_at(b + 2) * static_cast<float>(k4_minimum(b + 4, sub32)))};
    case DType::q6_k:
      return {half_at(b + 208) * static_cast<float>(static_cast<signed char>(b[192 + sub16])), 0};
    case DType::iq4_xs: {
      const int low = b[4 + sub32 / 2] >> 4 * (sub32 % 2) & 15;
      const int high = (b[2] | b[3] << 8) >> 2 * sub32 & 3;
      return {half_at(b) * static_cast<float>((low | high << 4) - 32), 0};
    }
    default:
      return {half_at(b), 0};
  }
}

/// What is taken off a code where the form has no minimum.
__host__ __device__ constexpr int code_offset(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q3_k:
      return 8;
    case DType::q5_0:
      return 16;
    case DType::q6_k:
    case DType::q8_0:
    case DType::iq4_nl:
    case DType::iq4_xs:
      return 128;
    default:
      return 0;
  }
}

/// Value of element k of a row; the same bits as core's decoder gives.
__device__ inline float row_value(DType dtype, const std::uint8_t* row, std::uint32_t k) {
  switch (dtype) {
    case DType::f32: {
      const std::uint8_t* p = row + 4ull * k;
      return __uint_as_float(p[0] | p[1] << 8 | p[2] << 16 | static_cast<unsigned>(p[3]) << 24);
    }
    case DType::f16:
      return half_at(row + 2ull * k);
    case DType::bf16: {
      const std::uint8_t* p = row + 2ull * k;
      return __uint_as_float(static_cast<unsigned>(p[0]) << 16 | static_cast<unsigned>(p[1]) << 24);
    }
    default: {
      const std::uint32_t cols = block_cols(dtype);
      const std::uint8_t* b = row + static_cast<std::uint64_t>(k / cols) * block_bytes(dtype);
      const Affine affine = block_affine(dtype, b, static_cast<int>(k % cols));
      const int code = block_code(dtype, b, static_cast<int>(k % cols)) - code_offset(dtype);
      return __fadd_rn(__fmul_rn(affine.scale, static_cast<float>(code)), affine.minimum);
    }
  }
}

}  // namespace dllm::cuda
