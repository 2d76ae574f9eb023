// Products of int8 activations with weights rounded once more, to int8, on Hopper's integer tensor
// cores (Way::int8).
//
//   w[o, k] ~ step_w[o, k / n] * code,   x[r, k] ~ step_x[r, k / n] * code,   n: step_cols
//   out[r, o] = sum over n inputs at a time of step_x * (step_w * sum_k code_w code_x)
//
// n is 128, or 256 where gate and up are multiplied. A step is the largest of n values over 127;
// each block of 128 inputs has it. Sums of n inputs are exact integers; what they add is f32,
// inputs ascending, then parts of the inputs in order (as in gemm.hpp), so a row's result does not
// depend on the others.
#pragma once

#include "gemm_args.hpp"
#include "int8_panel.hpp"

namespace dllm::cuda {

/// The int8 weights of a packed matrix whose `int8` points to memory of int8_bytes().
void launch_quantise(const Packed& packed, const Int8Weights& to, cudaStream_t stream);

/// At most kMostProducts, of equally many inputs and one kind of store; all have int8 weights.
[[nodiscard]] GemmResults launch_gemm_int8(std::span<const Product> products,
                                           const Int8Panel& panel, float* work,
                                           const GemmDevice& device, cudaStream_t stream);

/// Whether launch_gated_int8() can take the two: their steps, and those of the panel, are of
/// kGatedStepCols inputs.
bool gates_inside_int8(const Packed& gate, const Packed& up);
/// products = silu(gate x) * (up x), a panel of as many rows as `x`; of binary16 its row scales are
/// there already (ProductScale, panels.hpp). `between`: room for the products in f32, which some
/// calls of few rows take.
void launch_gated_int8(const Packed& gate, const Packed& up, const Int8Panel& x,
                       const Int8Panel& products, const Rows& between, const GemmDevice& device,
                       cudaStream_t stream);
void launch_gated_int8(const Packed& gate, const Packed& up, const Int8Panel& x,
                       const Panel& products, const GemmDevice& device, cudaStream_t stream);

/// A call that is cut already. Whether parts of the inputs are left to be added.
bool launch_int8_sm90(const GemmArgs& args, const Int8Panel& panel, const GemmDevice& device,
                      cudaStream_t stream);

/// A gated call: parts[0] is gate, parts[1] up, of as many rows; n_blocks: of one of them.
void launch_int8_gated_sm90(const GemmArgs& args, const Int8Panel& panel, const Int8Panel& products,
                            const Rows& between, const GemmDevice& device, cudaStream_t stream);
void launch_int8_gated_sm90(const GemmArgs& args, const Int8Panel& panel, const Panel& products,
                            const GemmDevice& device, cudaStream_t stream);

/// The same with tiles of 96 columns, better for few rows: what it costs beside the above, and the
/// launch. Products go to `rows`, or, where it has no memory, to args.products.
std::uint64_t int8_gated_narrow_cost(const GemmArgs& args, const GemmDevice& device);
void launch_int8_gated_narrow(const GemmArgs& args, const Int8Panel& panel, const Rows& rows,
                              const GemmDevice& device, cudaStream_t stream);

}  // namespace dllm::cuda
