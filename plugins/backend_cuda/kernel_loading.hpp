// Kernels are loaded when a backend is made, not one by one when each is first launched, which made
// the first step of a run twice as long. (CUDA Programming Guide, "Lazy Loading": the environment
// variable CUDA_MODULE_LOADING does it, too, but that is the host application's.)
#pragma once

#include <span>

namespace dllm::cuda {

/// Onto the current device, all kernels of the source files that `one_of_each` (addresses of
/// __global__ functions) are of. What cannot be loaded ahead is loaded at its first launch.
void load_kernels(std::span<const void* const> one_of_each);

// One kernel of each source file that a step uses.
const void* rows_kernel();
const void* panels_kernel();
const void* sums_kernel();
const void* heads_kernel();
const void* attention_kernel();
const void* short_attention_kernel();
const void* gemm_sm80_kernel();
const void* gemm_sm90_kernel();
const void* gemm_int8_kernel();
const void* gemm_int8_gated_kernel();
const void* head_stream_kernel();
const void* head_whole_kernel();

}  // namespace dllm::cuda
