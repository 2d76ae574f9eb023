// Packed codes to binary16 operands, in registers.
//
// 0x6400 | q is the binary16 number 1024 + q for q < 1024, so a code becomes a number with one
// logical operation and one exact subtraction; scale and minimum follow in one fused multiply-add,
// rounded once.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "packed.hpp"

namespace dllm::cuda {

template <Form kForm>
struct Unit {
  static constexpr FormFacts kFacts = form_facts(kForm);
  static constexpr int kLowWords = static_cast<int>(kFacts.low_bytes) / 128;
  static constexpr int kHighWords = static_cast<int>(kFacts.high_bytes) / 128;
  static constexpr int kScaleWords = static_cast<int>(kFacts.scale_bytes) / 32;
  std::uint32_t low[kLowWords];
  std::uint32_t high[kHighWords > 0 ? kHighWords : 1];
  std::uint32_t scales[kScaleWords > 0 ? kScaleWords : 1];

  /// Reads one lane's part of unit number `unit`.
  __device__ __forceinline__ void load(const Packed& w, std::uint64_t unit, int lane) {
    const auto* from = reinterpret_cast<const uint4*>(w.low + unit * kFacts.low_bytes) + lane;
#pragma unroll
    for (int i = 0; i < kLowWords / 4; ++i) {
      const uint4 words = __ldg(from + 32 * i);
      low[4 * i] = words.x;
      low[4 * i + 1] = words.y;
      low[4 * i + 2] = words.z;
      low[4 * i + 3] = words.w;
    }
    if constexpr (kHighWords == 1)
      high[0] = __ldg(reinterpret_cast<const std::uint32_t*>(w.high + unit * 128) + lane);
    if constexpr (kHighWords == 2) {
      const uint2 words = __ldg(reinterpret_cast<const uint2*>(w.high + unit * 256) + lane);
      high[0] = words.x;
      high[1] = words.y;
    }
    if constexpr (kScaleWords > 0) {
      const auto* s = reinterpret_cast<const uint2*>(w.scales + unit * kFacts.scale_bytes) +
                      (lane / 4) * (kScaleWords / 2);
#pragma unroll
      for (int i = 0; i < kScaleWords / 2; ++i) {
        const uint2 words = __ldg(s + i);
        scales[2 * i] = words.x;
        scales[2 * i + 1] = words.y;
      }
    }
  }

  /// A operand of step j (16 inputs) of the unit.
  __device__ __forceinline__ void operand(int j, std::uint32_t a[4]) const {
    if constexpr (kForm == Form::f16) {
#pragma unroll
      for (int p = 0; p < 4; ++p) a[p] = low[4 * j + p];
      return;
    } else {
      const int group = kFacts.half_groups ? j : j / 2;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const __half2 q = code_pair(j, p);
        const int at = 2 * group + (p & 1);
        __half2 value;
        if constexpr (kFacts.has_minimum) {
          const __half2 both = as_half2(scales[at]);
          value = __hfma2(q, __low2half2(both), __high2half2(both));
        } else {
          const __half2 two = as_half2(scales[at / 2]);
          value = __hmul2(q, at % 2 == 0 ? __low2half2(two) : __high2half2(two));
        }
        a[p] = as_word(value);
      }
    }
  }

 private:
  static __device__ __forceinline__ __half2 as_half2(std::uint32_t word) {
    return *reinterpret_cast<const __half2*>(&word);
  }
  static __device__ __forceinline__ std::uint32_t as_word(__half2 value) {
    return *reinterpret_cast<const std::uint32_t*>(&value);
  }

  __device__ __forceinline__ __half2 code_pair(int j, int p) const {
    std::uint32_t biased;  // two binary16 numbers 1024 + code
    if constexpr (kForm == Form::q8) {
      biased = __byte_perm(low[2 * j + p / 2], 0x64646464u, p % 2 == 0 ? 0x4140 : 0x4342);
    } else {
      biased = ((low[j] >> (4 * p)) & 0x000F000Fu) | 0x64006400u;
      if constexpr (kFacts.bits == 5) biased |= ((high[0] >> (4 * j + p)) & 0x00010001u) << 4;
      if constexpr (kFacts.bits == 6)
        biased |= ((high[j / 2] >> (2 * (4 * (j % 2) + p))) & 0x00030003u) << 4;
    }
    constexpr float kBase = 1024.0f + (kFacts.has_minimum ? 0 : 1 << (kFacts.bits - 1));
    return __hsub2(as_half2(biased), __float2half2_rn(kBase));
  }
};

}  // namespace dllm::cuda
