// The AVX-VNNI kernels with their one instruction in its AVX-512 encoding.
#pragma once

#include "kernels.hpp"

namespace dllm::cpu::test {

/// codes_vnni256.inl and fast_vnni256.inl as in kernels_avxvnni.cpp, for processors with AVX-512
/// VNNI (256-bit vectors need AVX-512VL) but no AVX-VNNI. Null where the compiler's target cannot
/// have them.
const Kernels* vnni256_evex_kernels();
const FastKernels* vnni256_evex_fast();

}  // namespace dllm::cpu::test
