#include "peak.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "machine.hpp"
#include "memory.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dllm::cpu {
namespace {

// Chains that hide the latency of a multiply-add (4-5 cycles, two a cycle) and fit 16 registers.
constexpr int kChains = 12;
constexpr std::uint32_t kTurns = 1u << 18;  // of all chains in an item: one to ten milliseconds
constexpr std::uint32_t kItemsPerThread = 4;
constexpr int kRounds = 4;

/// A loop over registers, and the operations it does.
struct RegisterLoop {
  const char* unit;
  std::uint32_t (*run)(std::uint32_t turns);  // the result only keeps the compiler honest
  double operations_per_turn;
};

// One function per unit; `STEP(each)` is applied to every chain in turn. Chains are variables,
// since an array would be kept in memory, and the body is a macro, since a template or a lambda
// would not inherit the target.
#define DLLM_REGISTER_LOOP(name, attributes, Vector, start, STEP)                   \
  attributes std::uint32_t name(std::uint32_t turns) {                              \
    /* different starts: equal chains would be merged into one */                   \
    Vector a = start, b = a + a, c = b + a, d = c + a, e = d + a, f = e + a;        \
    Vector g = f + a, h = g + a, i = h + a, j = i + a, k = j + a, l = k + a;        \
    for (std::uint32_t turn = 0; turn < turns; ++turn) {                            \
      a = STEP(a), b = STEP(b), c = STEP(c), d = STEP(d), e = STEP(e), f = STEP(f); \
      g = STEP(g), h = STEP(h), i = STEP(i), j = STEP(j), k = STEP(k), l = STEP(l); \
    }                                                                               \
    const Vector total = a + b + c + d + e + f + g + h + i + j + k + l;             \
    std::uint32_t word = 0;                                                         \
    std::memcpy(&word, &total, sizeof word);                                        \
    return word;                                                                    \
  }

#if defined(__x86_64__)
#define DLLM_TARGET(flags) __attribute__((target(flags)))

#define DLLM_STEP(x) _mm_add_epi32(x, _mm_madd_epi16(x, _mm_set1_epi16(3)))
DLLM_REGISTER_LOOP(dot_sse2, , __m128i, _mm_set1_epi32(static_cast<int>(turns)), DLLM_STEP)
#undef DLLM_STEP
#define DLLM_STEP(x) \
  _mm256_add_epi32(  \
      x, _mm256_madd_epi16(_mm256_maddubs_epi16(x, _mm256_set1_epi8(3)), _mm256_set1_epi16(1)))
DLLM_REGISTER_LOOP(dot_avx2, DLLM_TARGET("avx2"), __m256i,
                   _mm256_set1_epi32(static_cast<int>(turns)), DLLM_STEP)
#undef DLLM_STEP
#define DLLM_STEP(x) _mm256_dpbusd_avx_epi32(x, _mm256_set1_epi8(5), _mm256_set1_epi8(3))
DLLM_REGISTER_LOOP(dot_avxvnni, DLLM_TARGET("avx2,avxvnni"), __m256i,
                   _mm256_set1_epi32(static_cast<int>(turns)), DLLM_STEP)
#undef DLLM_STEP
#define DLLM_STEP(x) \
  _mm512_dpbusd_epi32(x, _mm512_set1_epi32(0x05050505), _mm512_set1_epi32(0x03030303))
DLLM_REGISTER_LOOP(dot_avx512vnni, DLLM_TARGET("avx512f,avx512vnni"), __m512i,
                   _mm512_set1_epi32(static_cast<int>(turns)), DLLM_STEP)
#undef DLLM_STEP
#define DLLM_STEP(x) _mm_add_ps(_mm_mul_ps(x, _mm_set1_ps(0.5F)), _mm_set1_ps(1))
DLLM_REGISTER_LOOP(fma_sse2, , __m128, _mm_set1_ps(static_cast<float>(turns)), DLLM_STEP)
#undef DLLM_STEP
#define DLLM_STEP(x) _mm256_fmadd_ps(x, _mm256_set1_ps(0.5F), _mm256_set1_ps(1))
DLLM_REGISTER_LOOP(fma_avx2, DLLM_TARGET("avx2,fma"), __m256,
                   _mm256_set1_ps(static_cast<float>(turns)), DLLM_STEP)
#undef DLLM_STEP
#define DLLM_STEP(x) _mm512_fmadd_ps(x, _mm512_set1_ps(0.5F), _mm512_set1_ps(1))
DLLM_REGISTER_LOOP(fma_avx512, DLLM_TARGET("avx512f"), __m512,
                   _mm512_set1_ps(static_cast<float>(turns)), DLLM_STEP)
#undef DLLM_STEP

// "amx" uses AVX-512 for everything but the products of tiles.
bool has_512_bits(std::string_view isa) {
  return isa == "amx" || isa.find("avx512") != std::string_view::npos;
}

// Intel SDM volume 1, "Tile configuration": 8 tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Four tiles of sums, each the product of two that stay: what the unit does without any load.
// Only where the kernel has granted tiles (isa.cpp).
std::uint32_t dot_amx(std::uint32_t turns) {
  const TileConfig config;
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile(
      "tilezero %tmm0; tilezero %tmm1; tilezero %tmm2; tilezero %tmm3; "
      "tilezero %tmm4; tilezero %tmm5; tilezero %tmm6; tilezero %tmm7");
  for (std::uint32_t turn = 0; turn < turns; ++turn)
    asm volatile(
        "tdpbssd %tmm6, %tmm4, %tmm0; tdpbssd %tmm7, %tmm4, %tmm1; "
        "tdpbssd %tmm6, %tmm5, %tmm2; tdpbssd %tmm7, %tmm5, %tmm3");
  asm volatile("tilerelease");
  return turns;
}

RegisterLoop integer_loop(std::string_view isa, bool tiles) {
  if (tiles) return {"tdpbssd, AMX tiles", dot_amx, 2.0 * 16 * 16 * 64 * 4};
  if (has_512_bits(isa)) return {"vpdpbusd, 512 bits", dot_avx512vnni, 2.0 * 64 * kChains};
  if (isa.find("vnni") != std::string_view::npos)
    return {"vpdpbusd, 256 bits", dot_avxvnni, 2.0 * 32 * kChains};
  if (isa.find("avx2") != std::string_view::npos)
    return {"vpmaddubsw, vpmaddwd, vpaddd, 256 bits", dot_avx2, 2.0 * 32 * kChains};
  return {"pmaddwd, paddd, 128 bits", dot_sse2, 2.0 * 8 * kChains};
}

RegisterLoop float_loop(std::string_view isa) {
  if (has_512_bits(isa)) return {"vfmadd, 512 bits", fma_avx512, 2.0 * 16 * kChains};
  if (isa.find("avx") != std::string_view::npos)
    return {"vfmadd, 256 bits", fma_avx2, 2.0 * 8 * kChains};
  return {"mulps, addps, 128 bits", fma_sse2, 2.0 * 4 * kChains};
}
#else
#define DLLM_STEP(x) x + x * 3
DLLM_REGISTER_LOOP(dot_plain, , std::uint32_t, turns, DLLM_STEP)
#undef DLLM_STEP
#define DLLM_STEP(x) x * 0.5F + 1
DLLM_REGISTER_LOOP(fma_plain, , float, static_cast<float>(turns), DLLM_STEP)
#undef DLLM_STEP
RegisterLoop integer_loop(std::string_view, bool) {
  return {"plain integers", dot_plain, 2.0 * kChains};
}
RegisterLoop float_loop(std::string_view) { return {"plain f32", fma_plain, 2.0 * kChains}; }
#endif
#undef DLLM_REGISTER_LOOP

// Operations a second of all threads, the best of some rounds: the first wakes the machine up.
double best_rate(Arena& arena, const RegisterLoop& loop) {
  std::atomic<std::uint32_t> kept{0};
  const std::uint32_t n_items = arena.n_threads() * kItemsPerThread;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t begin_ns = profile_now_ns();
    arena.for_each(n_items, 1, [&](std::uint32_t, unsigned) {
      kept.fetch_add(loop.run(kTurns), std::memory_order_relaxed);
    });
    const auto ns = static_cast<double>(profile_now_ns() - begin_ns);
    best = std::max(best, n_items * loop.operations_per_turn * kTurns / ns * 1e9);
  }
  return best;
}

// Bytes a second, all threads reading pieces of one buffer.
double best_read_rate(Arena& arena) {
  constexpr std::uint64_t kPiece = 1u << 20;
  const std::uint64_t room = memory_facts({}).available_bytes / 4;
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or less: not known
  const std::uint64_t wanted =
      std::max<std::uint64_t>(256, 2 * static_cast<std::uint64_t>(std::max(cache, 0L)) / kPiece);
  const auto n_pieces = static_cast<std::uint32_t>(std::min(wanted, room / kPiece));
  if (n_pieces < 64) return 0;
  const AlignedMemory memory(n_pieces * kPiece, "the measurement of reading");
  auto* words = memory.as<std::uint64_t>();
  constexpr std::uint64_t kWords = kPiece / sizeof(std::uint64_t);
  arena.for_each(n_pieces, 1, [&](std::uint32_t piece, unsigned) {
    std::memset(words + piece * kWords, 1, kPiece);
  });
  std::atomic<std::uint64_t> kept{0};
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t begin_ns = profile_now_ns();
    arena.for_each(n_pieces, 1, [&](std::uint32_t piece, unsigned) {
      const std::uint64_t* from = words + piece * kWords;
      std::uint64_t sums[8] = {};  // a cache line a turn
      for (std::uint64_t i = 0; i < kWords; i += 8)
        for (std::uint64_t j = 0; j < 8; ++j) sums[j] ^= from[i + j];
      std::uint64_t sum = 0;
      for (const std::uint64_t each : sums) sum += each;
      kept.fetch_add(sum, std::memory_order_relaxed);
    });
    const auto ns = static_cast<double>(profile_now_ns() - begin_ns);
    best = std::max(best, static_cast<double>(n_pieces * kPiece) / ns * 1e9);
  }
  return best;
}

}  // namespace

DevicePeak measure_peak(Arena& arena, std::string_view isa, bool tiles) {
  const RegisterLoop dots = integer_loop(isa, tiles);
  DevicePeak peak;
  peak.integer_unit = dots.unit;
  peak.integer_tops = best_rate(arena, dots) / 1e12;
  peak.float_tflops = best_rate(arena, float_loop(isa)) / 1e12;
  peak.read_gb_per_s = best_read_rate(arena) / 1e9;
  return peak;
}

}  // namespace dllm::cpu
