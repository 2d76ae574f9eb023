// Launches that overlap: a kernel may start while the one before it in the stream still runs, and
// waits where it first needs what that one wrote.
//
//   launch("norm", norm_kernel, grid, threads, shared_bytes, stream, args...);
//
//   __global__ void norm_kernel(...) {
//     wait_for_predecessor();   // before any memory that a kernel writes or still reads
//     let_successor_start();
//
// Every kernel launched so must call wait_for_predecessor() in every block: a kernel's end then
// means that all before it have ended too, whatever they overlap. (CUDA Programming Guide,
// "Programmatic Dependent Launch"; before compute capability 9.0 both calls do nothing.)
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "cuda_check.hpp"

namespace dllm::cuda {

__device__ __forceinline__ void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_successor_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Whether the current device can overlap launches, and the kernels it runs know how to wait: code
/// for older devices does not, whatever it runs on.
inline bool launches_overlap() {
#if defined(DLLM_CUDA_HAS_90)
  int device = 0;
  int major = 0;
  cuda_check(cudaGetDevice(&device), "asking for the GPU");
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "looking at the GPU");
  return major >= 9;
#else
  return false;
#endif
}

template <typename... Parameters, typename... Arguments>
void launch(const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 threads,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = launches_overlap() ? 1 : 0;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), what);
}

}  // namespace dllm::cuda
