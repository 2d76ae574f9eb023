// The ways of multiplying.
#pragma once

#include <cstdint>

namespace dllm::cuda {

/// How products are computed; the backend option `products`.
///
/// f16    binary16 operands: weights unpacked, activations rounded to 11 bits
/// int8   weights rounded once more, to int8, and int8 activations, one step for 128 inputs each
///        (gemm_int8.hpp; compute capability 9.0)
enum class Products : std::uint8_t { f16, int8 };

}  // namespace dllm::cuda
