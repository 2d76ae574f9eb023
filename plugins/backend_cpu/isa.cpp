#include "isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
// A bit of CPUID leaf 7, subleaf 1, EAX (Intel SDM volume 2, CPUID): g++ 12 has no names for them.
bool has_leaf_7_1_eax(unsigned bit) {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << bit)) != 0;
}
// The instruction needs the same state as AVX2, which has_avx2() knows the system to keep.
bool has_avxvnni() { return has_avx2() && has_leaf_7_1_eax(4); }
bool has_avx512vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
bool has_avx512bf16() { return has_avx512vnni() && has_leaf_7_1_eax(5); }
#else
bool has_avx512bf16() { return false; }
bool has_avx2() { return false; }
bool has_avxvnni() { return false; }
bool has_avx512vnni() { return false; }
#endif

#if defined(__x86_64__) && defined(__linux__)
// The kernel lets a process use tile registers once it has asked; threads inherit the permission
// (Linux Documentation/arch/x86/xstate.rst). Asking costs nothing until a tile is loaded.
bool grants_tiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// CPUID leaf 7, EDX: AMX-BF16 is bit 22, AMX-TILE 24, AMX-INT8 25 (Intel SDM volume 2, CPUID).
bool has_tiles_for(unsigned bit) {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool tiles = (edx & (1u << 24)) != 0 && (edx & (1u << bit)) != 0;
  return tiles && has_avx512vnni() && grants_tiles();
}
bool has_amx() { return has_tiles_for(25); }
bool has_amx_bf16() { return has_tiles_for(22) && has_avx512bf16(); }
#else
bool has_amx() { return false; }
bool has_amx_bf16() { return false; }
#endif

std::vector<Isa> find_isas() {
  const Kernels* avx2 = avx2_kernels();
  const Kernels* avxvnni = avxvnni_kernels();
  const Kernels* avx512 = avx512vnni_kernels();
  const BrainKernels* brains = has_avx512bf16() ? avx512bf16_brains() : nullptr;
  const BrainKernels* amx_or_brains = has_amx_bf16() ? amx_brains() : brains;
  const AttentionMath* tiles = has_amx_bf16() ? amx_attention() : nullptr;
  return {{"portable", portable_kernels(), nullptr, nullptr, nullptr, true},
          {"avx2", avx2, nullptr, nullptr, nullptr, avx2 && has_avx2()},
          {"avxvnni", avxvnni, avxvnni_fast(), nullptr, nullptr, avxvnni && has_avxvnni()},
          {"avx512vnni", avx512, avx512vnni_fast(), brains, nullptr, avx512 && has_avx512vnni()},
          {"amx", avx512, amx_fast(), amx_or_brains, tiles, amx_fast() && has_amx()}};
}

std::string usable_names() {
  std::string names = "auto";
  for (const Isa& isa : all_isas())
    if (isa.usable) names += ", " + std::string(isa.name);
  return names;
}

}  // namespace

std::span<const Isa> all_isas() {
  static const std::vector<Isa> isas = find_isas();
  return isas;
}

bool meets_baseline() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
         __builtin_cpu_supports("popcnt");
#else
  return true;
#endif
}

const Isa& choose_isa(std::string_view name, std::string_view origin) {
  const Isa* fastest = nullptr;
  for (const Isa& isa : all_isas()) {
    if (isa.usable) fastest = &isa;
    if (isa.name != name) continue;
    if (isa.usable) return isa;
    throw Error(ErrorCode::bad_usage,
                "this machine cannot run the instruction set '" + std::string(name) + "'",
                std::string(origin), "use one of: " + usable_names());
  }
  if (name == "auto") return *fastest;
  throw Error(ErrorCode::bad_usage, "unknown instruction set '" + std::string(name) + "'",
              std::string(origin), "use one of: " + usable_names());
}

}  // namespace dllm::cpu
