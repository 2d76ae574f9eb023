#include "isa.hpp"

#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
bool has_avx512vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#else
bool has_avx2() { return false; }
bool has_avx512vnni() { return false; }
#endif

std::vector<Isa> find_isas() {
  return {
      {"portable", portable_kernels(), true},
      {"avx2", avx2_kernels(), avx2_kernels() != nullptr && has_avx2()},
      {"avx512vnni", avx512vnni_kernels(), avx512vnni_kernels() != nullptr && has_avx512vnni()}};
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
