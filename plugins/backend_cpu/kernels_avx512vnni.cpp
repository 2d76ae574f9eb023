#include "kernels.hpp"
namespace dllm::cpu {
const Kernels* avx512vnni_kernels() { return nullptr; }
}  // namespace dllm::cpu
