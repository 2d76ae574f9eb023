// Products in the ways that their weights take: what a product reads is made in their forms.
#include <algorithm>

#include "cuda_backend.hpp"
#include "cuda_check.hpp"
#include "gemm_int8.hpp"

namespace dllm::cuda {
namespace {

constexpr std::size_t kMost = kMostProducts;  // of a launch

bool is_int8(const Product& product) { return product.weight.way() == Way::int8; }

// The first of them that a launch takes together: of one way.
std::span<const Product> one_launch(std::span<const Product> products) {
  std::size_t n = 1;
  while (n < std::min(products.size(), kMost) && is_int8(products[n]) == is_int8(products[0])) ++n;
  return products.first(n);
}

}  // namespace

void CudaBackend::place_input(InputMemory& memory, Way way, std::uint32_t n_rows,
                              std::uint32_t n_cols, Inputs& inputs) {
  sums_.settle_all();  // their row scales may lie where this input's will
  const std::uint32_t padded_rows = Panel::padded(n_rows);
  if (&memory == &input_) prepared_ = {};
  if (way == Way::int8) {
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

Inputs CudaBackend::inputs_for(std::span<const Product> products, const SummedRows& x,
                               const float* norm, float eps) {
  const bool some_int8 = std::any_of(products.begin(), products.end(), is_int8);
  const bool all_int8 = std::all_of(products.begin(), products.end(), is_int8);
  const Rows& rows = x.rows;
  const bool is_prepared = !norm && x.sums.n == 0 && prepared_.rows.values == rows.values &&
                           prepared_.rows.n_cols == rows.n_cols &&
                           prepared_.rows.n_rows >= rows.n_rows;
  if (is_prepared && some_int8 == all_int8 && (prepared_.way == Way::int8) == all_int8)
    return prepared_.inputs.rows(0, rows.n_rows);
  Inputs inputs;
  SummedRows from = x;
  for (const Way way : {Way::int8, Way::f16}) {
    if (way == Way::int8 ? !some_int8 : all_int8) continue;
    Inputs one;
    place_input(input_, way, rows.n_rows, rows.n_cols, one);
    launch_prepare(from, norm, eps, one, stream_.get());
    from.sums = {};  // the rows hold them now
    if (way == Way::int8) inputs.int8 = one.int8;
    if (way == Way::f16) inputs.f16 = one.f16;
  }
  return inputs;
}

// Launch by launch; what the last of them leaves to be added may wait.
void CudaBackend::multiply(std::span<const Product> products, const Inputs& inputs, bool may_wait) {
  while (!products.empty()) {
    const std::span<const Product> now = one_launch(products);
    sums_.settle_all();
    reserve_gemm_work(inputs.n_rows());
    auto* work = gemm_work_.as<float>();
    sums_.add(is_int8(now[0])
                  ? launch_gemm_int8(now, inputs.int8, work, gemm_device_, stream_.get())
                  : launch_gemm(now, inputs.f16, work, gemm_device_, stream_.get()),
              may_wait);
    products = products.subspan(now.size());
  }
}

}  // namespace dllm::cuda
