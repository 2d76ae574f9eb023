// Products in the way that was chosen: what a product reads is made in its form.
#include <algorithm>

#include "cuda_backend.hpp"
#include "cuda_check.hpp"
#include "gemm_int8.hpp"

namespace dllm::cuda {
namespace {
constexpr std::size_t kMost = kMostProducts;  // of a launch
}

CudaBackend::Inputs CudaBackend::Inputs::rows(std::uint32_t first, std::uint32_t n) const {
  Inputs part = *this;
  part.f16.first_row = part.int8.first_row = first;
  part.f16.n_rows = part.int8.n_rows = n;
  return part;
}

Products CudaBackend::way_of(const Packed& weight) const {
  return weight.int8.codes ? Products::int8 : Products::f16;
}

void CudaBackend::place_input(InputMemory& memory, Products way, std::uint32_t n_rows,
                              std::uint32_t n_cols, Inputs& inputs) {
  sums_.settle_all();  // their row scales may lie where this input's will
  const std::uint32_t padded_rows = Panel::padded(n_rows);
  if (&memory == &input_) prepared_ = {};
  if (way == Products::int8) {
    const std::uint64_t rows = Int8Panel::block_rows(n_rows, n_cols);
    grow(memory.codes, rows * kInt8Cols, "input panel");
    grow(memory.steps, rows * sizeof(float), "input panel");
    inputs.int8 = {memory.codes.as<std::int8_t>(), memory.steps.as<float>(), n_rows, n_cols,
                   padded_rows};
    return;
  }
  grow(memory.values, Panel::halves(n_rows, n_cols) * sizeof(__half), "input panel");
  grow(memory.scales, n_rows * sizeof(float), "input panel");
  inputs.f16 = {memory.values.as<__half>(), memory.scales.as<float>(), n_rows, n_cols, padded_rows};
}

CudaBackend::Inputs CudaBackend::inputs_for(std::span<const Product> products, const SummedRows& x,
                                            const float* norm, float eps) {
  const Products way = way_of(products[0].weight);
  Inputs inputs;
  const Rows& rows = x.rows;
  if (!norm && x.sums.n == 0 && way == prepared_.way && prepared_.rows.values == rows.values &&
      prepared_.rows.n_cols == rows.n_cols && prepared_.rows.n_rows >= rows.n_rows)
    return prepared_.inputs.rows(0, rows.n_rows);
  place_input(input_, way, rows.n_rows, rows.n_cols, inputs);
  if (way == Products::int8) {
    launch_prepare(x, norm, eps, inputs.int8, stream_.get());
  } else {
    launch_prepare(x, norm, eps, inputs.f16, stream_.get());
  }
  return inputs;
}

// As many together as a launch takes. All of a backend's matrices are multiplied in one way.
void CudaBackend::multiply(std::span<const Product> products, const Inputs& inputs, bool may_wait) {
  for (; !products.empty(); products = products.subspan(std::min(products.size(), kMost))) {
    const std::span<const Product> now = products.first(std::min(products.size(), kMost));
    const bool int8 = way_of(now[0].weight) == Products::int8;
    sums_.settle_all();
    reserve_gemm_work(int8 ? inputs.int8.n_rows : inputs.f16.n_rows);
    auto* work = gemm_work_.as<float>();
    sums_.add(int8 ? launch_gemm_int8(now, inputs.int8, work, gemm_device_, stream_.get())
                   : launch_gemm(now, inputs.f16, work, gemm_device_, stream_.get()),
              may_wait);
  }
}

}  // namespace dllm::cuda
