// Blocks of 256: sub-blocks of 16 or 32 elements with small integer scales under one or two halves.
#include "dllm/quant.hpp"
#include "quant/decode_blocks.hpp"

namespace dllm {

// Two halves of 128 elements; in each, four bit planes j of 32 elements read the same 32 bytes.
void decode_block(const BlockQ2K& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  const float dmin = f16_to_f32(load_u16(block.dmin));
  for (unsigned sub = 0; sub < 16; ++sub) {  // 16 elements each
    const unsigned half = sub / 8;
    const unsigned plane = sub % 8 / 2;
    const std::uint8_t* qs = block.qs.data() + 32 * half + 16 * (sub % 2);
    const float scale = d * static_cast<float>(block.scales[sub] & 15);
    const float minimum = dmin * static_cast<float>(block.scales[sub] >> 4);
    for (unsigned l = 0; l < 16; ++l) {
      *out++ = scale * static_cast<float>(qs[l] >> 2 * plane & 3) - minimum;
    }
  }
}

// As Q2_K; the third bit of plane j of half n is bit 4n + j of hmask, and 4 is taken off where it
// is 0.
void decode_block(const BlockQ3K& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  for (unsigned sub = 0; sub < 16; ++sub) {
    const unsigned half = sub / 8;
    const unsigned plane = sub % 8 / 2;
    const std::uint8_t* qs = block.qs.data() + 32 * half + 16 * (sub % 2);
    const std::uint8_t* hmask = block.hmask.data() + 16 * (sub % 2);
    const float scale = d * static_cast<float>(scale_q3k(block.scales, sub) - 32);
    for (unsigned l = 0; l < 16; ++l) {
      const int high = (hmask[l] >> (4 * half + plane) & 1) != 0 ? 0 : 4;
      *out++ = scale * static_cast<float>((qs[l] >> 2 * plane & 3) - high);
    }
  }
}

// Four groups of 64 elements share 32 bytes each: low nibbles first, then high ones.
void decode_block(const BlockQ4K& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  const float dmin = f16_to_f32(load_u16(block.dmin));
  for (unsigned sub = 0; sub < 8; ++sub) {  // 32 elements each
    const auto [sc, mn] = scale_min_k4(block.scales, sub);
    const float scale = d * static_cast<float>(sc);
    const float minimum = dmin * static_cast<float>(mn);
    const std::uint8_t* qs = block.qs.data() + 32 * (sub / 2);
    for (unsigned l = 0; l < 32; ++l) {
      *out++ = scale * static_cast<float>(qs[l] >> 4 * (sub % 2) & 15) - minimum;
    }
  }
}

// As Q4_K; the fifth bit of sub-block j is bit j of qh.
void decode_block(const BlockQ5K& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  const float dmin = f16_to_f32(load_u16(block.dmin));
  for (unsigned sub = 0; sub < 8; ++sub) {
    const auto [sc, mn] = scale_min_k4(block.scales, sub);
    const float scale = d * static_cast<float>(sc);
    const float minimum = dmin * static_cast<float>(mn);
    const std::uint8_t* qs = block.qs.data() + 32 * (sub / 2);
    for (unsigned l = 0; l < 32; ++l) {
      const int q = (qs[l] >> 4 * (sub % 2) & 15) | (block.qh[l] >> sub & 1) << 4;
      *out++ = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Two halves of 128 elements; plane j (32 elements) takes the low (j < 2) or high nibbles of 32
// bytes of ql (the first or second 32 by j % 2) and bits 2j, 2j + 1 of qh; 32 is taken off.
void decode_block(const BlockQ6K& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  for (unsigned sub = 0; sub < 16; ++sub) {  // 16 elements each
    const unsigned half = sub / 8;
    const unsigned plane = sub % 8 / 2;
    const unsigned first = 16 * (sub % 2);
    const std::uint8_t* ql = block.ql.data() + 64 * half + 32 * (plane % 2) + first;
    const std::uint8_t* qh = block.qh.data() + 32 * half + first;
    const float scale = d * static_cast<float>(block.scales[sub]);
    for (unsigned l = 0; l < 16; ++l) {
      const int q = (ql[l] >> 4 * (plane / 2) & 15) | (qh[l] >> 2 * plane & 3) << 4;
      *out++ = scale * static_cast<float>(q - 32);
    }
  }
}

// Eight sub-blocks of 32 with a six-bit scale each; codes as in IQ4_NL.
void decode_block(const BlockIq4Xs& block, float* out) {
  const float d = f16_to_f32(load_u16(block.d));
  const unsigned scales_h = load_u16(block.scales_h);
  for (unsigned sub = 0; sub < 8; ++sub, out += 32) {
    const unsigned low = block.scales_l[sub / 2] >> 4 * (sub % 2) & 15U;
    const unsigned high = scales_h >> 2 * sub & 3U;
    const float scale = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    const std::uint8_t* qs = block.qs.data() + 16 * sub;
    for (unsigned j = 0; j < 16; ++j) {
      out[j] = scale * static_cast<float>(kIq4Values[qs[j] & 15]);
      out[j + 16] = scale * static_cast<float>(kIq4Values[qs[j] >> 4]);
    }
  }
}

}  // namespace dllm
