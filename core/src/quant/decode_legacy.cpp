// Blocks of 32: one or two scales, codes in nibbles (element j in the low nibble of byte j,
// element j + 16 in the high one) or bytes.
#include "dllm/quant.hpp"
#include "quant/decode_blocks.hpp"

namespace dllm {
namespace {

// The fifth bit of element `i`, in place above a nibble.
unsigned fifth_bit(const std::array<std::uint8_t, 4>& qh, unsigned i) {
  return (qh[i / 8] >> i % 8 & 1U) << 4;
}

}  // namespace

void decode_block(const BlockQ4_0& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  for (unsigned j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((block.qs[j] & 15) - 8);
    out[j + 16] = d * static_cast<float>((block.qs[j] >> 4) - 8);
  }
}

void decode_block(const BlockQ4_1& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  const float m = f16_to_f32(load_u16(block.m));
  for (unsigned j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(block.qs[j] & 15) + m;
    out[j + 16] = d * static_cast<float>(block.qs[j] >> 4) + m;
  }
}

void decode_block(const BlockQ5_0& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  for (unsigned j = 0; j < 16; ++j) {
    const unsigned low = (block.qs[j] & 15U) | fifth_bit(block.qh, j);
    const unsigned high = (block.qs[j] >> 4) | fifth_bit(block.qh, j + 16);
    out[j] = d * static_cast<float>(static_cast<int>(low) - 16);
    out[j + 16] = d * static_cast<float>(static_cast<int>(high) - 16);
  }
}

void decode_block(const BlockQ5_1& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  const float m = f16_to_f32(load_u16(block.m));
  for (unsigned j = 0; j < 16; ++j) {
    const unsigned low = (block.qs[j] & 15U) | fifth_bit(block.qh, j);
    const unsigned high = (block.qs[j] >> 4) | fifth_bit(block.qh, j + 16);
    out[j] = d * static_cast<float>(low) + m;
    out[j + 16] = d * static_cast<float>(high) + m;
  }
}

void decode_block(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  for (unsigned j = 0; j < 32; ++j) out[j] = d * static_cast<float>(block.qs[j]);
}

void decode_block(const BlockIq4Nl& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  for (unsigned j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(kIq4Values[block.qs[j] & 15]);
    out[j + 16] = d * static_cast<float>(kIq4Values[block.qs[j] >> 4]);
  }
}

}  // namespace dllm
