// Inputs of products, made in the form in which they read them.
#pragma once

#include <cuda_runtime.h>

#include "device_rows.hpp"
#include "gemm.hpp"
#include "int8_panel.hpp"

namespace dllm::cuda {

/// The running product's input: for each of the ways of multiplying that its matrices take, a
/// panel of the same rows. One without memory is not wanted.
struct Inputs {
  Panel f16;
  Int8Panel int8;

  std::uint32_t n_rows() const { return f16.values ? f16.n_rows : int8.n_rows; }
  Inputs rows(std::uint32_t first, std::uint32_t n) const {
    Inputs part = *this;
    part.f16.first_row = part.int8.first_row = first;
    part.f16.n_rows = part.int8.n_rows = n;
    return part;
  }
};

/// Powers of two for rows of products of two results each, before they are known: where `scale` is
/// given, a row's becomes the one that brings `factor` times the square of its length into
/// [2^14, 2^15). `factor`: of the lengths of two matrices' longest rows. No product is above that;
/// of int8 none is above 1.3 of it, which binary16 holds, too: rounding moves each of 256 values by
/// at most 1 / 254 of their largest, so makes them, of either operand, at most 1.063 times as long.
struct ProductScale {
  float* scale = nullptr;
  double factor = 0;
};

/// The panel, one of the two, of RMSNorm(x) (`norm` not null; x * w / sqrt(mean(x^2) + eps)) or of
/// x itself, once its sums are added: then x's rows hold them. `products`: of two results of the
/// panel's row.
void launch_prepare(const SummedRows& x, const float* norm, float eps, const Inputs& panel,
                    cudaStream_t stream, ProductScale products = {});

/// The panel, one of the two, of silu(gate) * up.
void launch_swiglu(Rows gate, Rows up, const Inputs& panel, cudaStream_t stream);

}  // namespace dllm::cuda
