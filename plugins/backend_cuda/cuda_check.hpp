// Turns CUDA error codes into dllm::Error.
//
//   cuda_check(cudaStreamSynchronize(stream), "the end of a step");
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "dllm/error.hpp"

namespace dllm::cuda {

/// Throws Error (resource for memory, else internal) naming what was being done.
inline void cuda_check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // taken away, or the next launch's check would tell it again
  const bool memory = status == cudaErrorMemoryAllocation;
  throw Error(memory ? ErrorCode::resource : ErrorCode::internal,
              std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status),
              std::string("backend cuda, ") + what,
              memory ? "free GPU memory, or use a smaller model or a shorter canvas"
                     : "run again; if it repeats, report it with the output of nvidia-smi");
}

/// After a kernel launch: reports a launch that was refused.
inline void launch_check(const char* what) { cuda_check(cudaGetLastError(), what); }

}  // namespace dllm::cuda
