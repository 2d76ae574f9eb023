// The ways of multiplying, and which matrices take which.
#pragma once

#include <cstdint>

#include "dllm/backend.hpp"
#include "dllm/gguf.hpp"

namespace dllm::cuda {

/// How a product is computed.
///
/// f16    binary16 operands: weights unpacked, activations rounded to 11 bits
/// int8   weights rounded once more, to int8, and int8 activations, one step for 128 or
///        256 inputs each (gemm_int8.hpp; compute capability 9.0)
enum class Way : std::uint8_t { f16, int8 };

/// The backend option `products`. mixed: int8 where a model loses less by it than by llama.cpp's
/// products of the same file, f16 elsewhere.
enum class Products : std::uint8_t { f16, int8, mixed };

constexpr const char* name_of(Products products) {
  return products == Products::int8 ? "int8" : products == Products::mixed ? "mixed" : "f16";
}

/// Whether some matrices are multiplied in this way.
constexpr bool takes(Products products, Way way) {
  return products == Products::mixed || (products == Products::int8) == (way == Way::int8);
}

/// The way of a matrix.
Way way_of(Products products, const TensorInfo& tensor, WeightRole role);

}  // namespace dllm::cuda
