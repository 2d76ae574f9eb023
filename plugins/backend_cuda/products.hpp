// The ways of multiplying, and which matrices take which.
#pragma once

#include <cstdint>

#include "dllm/dtype.hpp"

namespace dllm::cuda {

/// How a product is computed.
///
/// f16    binary16 operands: weights unpacked, activations rounded to 11 bits
/// int8   weights rounded once more, to int8, and int8 activations, one step for 128 inputs each
///        (gemm_int8.hpp; compute capability 9.0)
enum class Way : std::uint8_t { f16, int8 };

/// The backend option `products`. mixed: int8 for types that lose less by it than llama.cpp's
/// products of the same file do (docs/accuracy.md), f16 for the others.
enum class Products : std::uint8_t { f16, int8, mixed };

/// The way of a matrix of this type.
constexpr Way way_of(Products products, DType type) {
  if (products == Products::mixed) return type == DType::q4_k ? Way::int8 : Way::f16;
  return products == Products::int8 ? Way::int8 : Way::f16;
}

constexpr const char* name_of(Products products) {
  return products == Products::int8 ? "int8" : products == Products::mixed ? "mixed" : "f16";
}

/// Whether some types are multiplied in this way.
constexpr bool takes(Products products, Way way) {
  return products == Products::mixed || way_of(products, DType::f16) == way;
}

}  // namespace dllm::cuda
