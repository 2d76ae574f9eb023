#include "device_memory.hpp"

#include <cuda_runtime.h>

#include "cuda_check.hpp"
#include "dllm/error.hpp"

namespace dllm::cuda {

DeviceFree device_free() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  return {free_bytes, total_bytes};
}

void* OnDevice::allocate(std::uint64_t bytes, const std::string& what) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw Error(ErrorCode::resource,
                "needs " + std::to_string(bytes) + " bytes of GPU memory, " +
                    std::to_string(device_free().free_bytes) + " are free",
                what, "free GPU memory, or use a smaller model or a shorter canvas");
  }
  cuda_check(status, what.c_str());
  return data;
}

void OnDevice::release(void* data) noexcept { (void)cudaFree(data); }

void* PinnedOnHost::allocate(std::uint64_t bytes, const std::string& what) {
  void* data = nullptr;
  cuda_check(cudaMallocHost(&data, bytes), what.c_str());
  return data;
}

void PinnedOnHost::release(void* data) noexcept { (void)cudaFreeHost(data); }

}  // namespace dllm::cuda
