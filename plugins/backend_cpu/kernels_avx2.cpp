#include "kernels.hpp"
namespace dllm::cpu {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace dllm::cpu
