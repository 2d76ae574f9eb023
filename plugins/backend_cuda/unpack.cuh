// Packed codes to binary16 operands, in registers.
//
// 0x6400 | q is the binary16 number 1024 + q for q < 1024, so a code becomes a number with one
// logical operation and one exact subtraction (or multiplication by 1/16 and subtraction); scale
// and minimum follow in one fused multiply-add, rounded once.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "packed.hpp"

namespace dllm::cuda {

template <Form kForm>
struct Unit {
  static constexpr FormFacts kFacts = form_facts(kForm);
  static constexpr int kLowWords = static_cast<int>(kFacts.low_bytes) / 128;
  static constexpr bool kIsBytes = kFacts.bits == 8;
  static constexpr int kHighWords = static_cast<int>(kFacts.high_bytes) / 128;
  static constexpr int kScaleWords = static_cast<int>(kFacts.scale_bytes) / 32;
  std::uint32_t low[kLowWords];
  std::uint32_t high;  // where there are such bits
  std::uint32_t scales[kScaleWords > 0 ? kScaleWords : 1];

  /// Reads one lane's part of a unit in global memory.
  __device__ __forceinline__ void load(const std::uint8_t* unit, int lane) {
    read(lane, [unit](std::uint32_t at, auto& words) {
      words = __ldg(reinterpret_cast<const std::remove_reference_t<decltype(words)>*>(unit + at));
    });
  }

  /// The same of a unit in shared memory, where the copy engine put it: reads stay behind the wait
  /// for it, and before whatever lets it be overwritten.
  __device__ __forceinline__ void load_shared(std::uint32_t unit, int lane) {
    read(lane, [unit](std::uint32_t at, auto& words) { read_shared(unit + at, words); });
  }

  /// A operand of step j (16 inputs) of the unit.
  __device__ __forceinline__ void operand(int j, std::uint32_t a[4]) const {
#pragma unroll
    for (int p = 0; p < 4; ++p) a[p] = pair(j, p);
  }

  /// Pair p of step j.
  __device__ __forceinline__ std::uint32_t pair(int j, int p) const {
    if constexpr (kForm == Form::f16) {
      return low[4 * j + p];
    } else {
      const int group = kFacts.half_groups ? j : j / 2;
      const __half2 q = code_pair(j, p);
      const int at = 2 * group + (p & 1);
      if constexpr (kFacts.has_minimum) {
        const __half2 both = as_half2(scales[at]);
        return as_word(__hfma2(q, __low2half2(both), __high2half2(both)));
      } else {
        const __half2 two = as_half2(scales[at / 2]);
        return as_word(__hmul2(q, at % 2 == 0 ? __low2half2(two) : __high2half2(two)));
      }
    }
  }

  /// Where `second`: rows g + 8 take the places of rows g, which pairs 0 and 2 are of.
  __device__ __forceinline__ void choose_rows(bool second) {
    constexpr int kCodeBits = kIsBytes ? 16 : 4;  // from a row's code to the next row's
    if constexpr (kForm == Form::f16) {
#pragma unroll
      for (int i = 0; i < kLowWords; i += 2) low[i] = second ? low[i + 1] : low[i];
    } else {
#pragma unroll
      for (std::uint32_t& word : low) word >>= second ? kCodeBits : 0;
    }
    if constexpr (kHighWords == 1) high >>= second ? 1 : 0;
#pragma unroll
    for (int i = 0; i < kScaleWords; ++i) {
      if constexpr (kFacts.has_minimum) {
        if (i % 2 == 0) scales[i] = second ? scales[i + 1] : scales[i];
      } else {
        scales[i] >>= second ? 16 : 0;
      }
    }
  }

 private:
  static __device__ __forceinline__ void read_shared(std::uint32_t at, uint4& words) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(at)
                 : "memory");
  }
  static __device__ __forceinline__ void read_shared(std::uint32_t at, uint2& words) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];\n"
                 : "=r"(words.x), "=r"(words.y)
                 : "r"(at)
                 : "memory");
  }
  static __device__ __forceinline__ void read_shared(std::uint32_t at, std::uint32_t& word) {
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(word) : "r"(at) : "memory");
  }

  // read_words(offset in the unit, uint4, uint2 or std::uint32_t to fill)
  template <typename ReadWords>
  __device__ __forceinline__ void read(int lane, const ReadWords& read_words) {
#pragma unroll
    for (int i = 0; i < kLowWords / 4; ++i) {
      uint4 words;
      read_words(512 * i + 16 * lane, words);
      low[4 * i] = words.x;
      low[4 * i + 1] = words.y;
      low[4 * i + 2] = words.z;
      low[4 * i + 3] = words.w;
    }
    if constexpr (kHighWords == 1) read_words(kFacts.low_bytes + 4 * lane, high);
#pragma unroll
    for (int i = 0; i < kScaleWords / 2; ++i) {
      uint2 words;
      read_words(kFacts.low_bytes + kFacts.high_bytes + lane / 4 * (4 * kScaleWords) + 8 * i,
                 words);
      scales[2 * i] = words.x;
      scales[2 * i + 1] = words.y;
    }
  }

  static __device__ __forceinline__ __half2 as_half2(std::uint32_t word) {
    return *reinterpret_cast<const __half2*>(&word);
  }
  static __device__ __forceinline__ std::uint32_t as_word(__half2 value) {
    return *reinterpret_cast<const std::uint32_t*>(&value);
  }

  __device__ __forceinline__ __half2 code_pair(int j, int p) const {
    constexpr float kOffset = kFacts.has_minimum ? 0 : 1 << (kFacts.bits - 1);
    if constexpr (kIsBytes) {
      const std::uint32_t biased =
          __byte_perm(low[2 * j + p / 2], 0x64646464u, p % 2 == 0 ? 0x4140 : 0x4342);
      return __hsub2(as_half2(biased), __float2half2_rn(1024.0f + kOffset));
    } else {
      // Odd pairs lie four bits higher: 1024 + 16 code, brought back by the multiplication.
      std::uint32_t biased = p % 2 == 0 ? biased_bits<0x000F000Fu>(low[j] >> (8 * (p / 2)))
                                        : biased_bits<0x00F000F0u>(low[j] >> (8 * (p / 2)));
      const int above = p % 2 == 0 ? 4 : 8;
      if constexpr (kFacts.bits == 5) {
        const int at = 4 * j + p;
        biased |=
            (above >= at ? high << (above - at) : high >> (at - above)) & (0x00010001u << above);
      }
      if (p % 2 == 0) return __hsub2(as_half2(biased), __float2half2_rn(1024.0f + kOffset));
      return __hfma2(as_half2(biased), __float2half2_rn(0.0625f),
                     __float2half2_rn(-64.0f - kOffset));
    }
  }

  // Two binary16 numbers 1024 + (word & mask), in one instruction.
  template <std::uint32_t kMask>
  static __device__ __forceinline__ std::uint32_t biased_bits(std::uint32_t word) {
    std::uint32_t biased;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(biased) : "r"(word), "n"(kMask), "r"(0x64006400u));
    return biased;
  }
};

}  // namespace dllm::cuda
