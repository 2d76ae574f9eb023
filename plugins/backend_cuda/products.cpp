#include "products.hpp"

#include "weight_sizes.hpp"

namespace dllm::cuda {

// Errors of logits with each of these choices, beside llama.cpp's: docs/accuracy.md. q and k, whose
// products are exponentiated, make most of what int8 costs where some channels are much larger than
// the rest. Types of few bits are far off in llama.cpp, too, because of its activations; those of
// six and eight bits can afford it where most inputs are summed, in the feed-forward layer's second
// matrix: in the models there are it is the one that has more inputs than outputs (attention's
// output is square).
Way way_of(Products products, const TensorInfo& tensor, WeightRole role) {
  if (products != Products::mixed) return products == Products::int8 ? Way::int8 : Way::f16;
  if (role == WeightRole::head_split) return Way::f16;
  const bool sums_most = role == WeightRole::row_split && cols_of(tensor) > rows_of(tensor);
  switch (tensor.dtype) {
    case DType::q4_k:
    case DType::q5_k:
      return Way::int8;
    case DType::q6_k:
    case DType::q8_0:
      return sums_most ? Way::int8 : Way::f16;
    default:
      return Way::f16;
  }
}

}  // namespace dllm::cuda
