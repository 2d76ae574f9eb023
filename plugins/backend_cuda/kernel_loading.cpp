#include "kernel_loading.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <vector>

namespace dllm::cuda {
namespace {

using LibraryOfKernel = CUresult (*)(CUlibrary*, CUkernel);

// The driver's function; the plugin is not linked to it.
LibraryOfKernel find_library_of_kernel() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kSince = 12050;  // CUDA 12.5
  if (cudaGetDriverEntryPointByVersion("cuKernelGetLibrary", &function, kSince, cudaEnableDefault,
                                       &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess)
    return nullptr;
  return reinterpret_cast<LibraryOfKernel>(function);
}

std::vector<cudaKernel_t> kernels_of(cudaLibrary_t library) {
  unsigned n = 0;
  if (cudaLibraryGetKernelCount(&n, library) != cudaSuccess) return {};
  std::vector<cudaKernel_t> kernels(n);
  if (cudaLibraryEnumerateKernels(kernels.data(), n, library) != cudaSuccess) return {};
  return kernels;
}

}  // namespace

void load_kernels(std::span<const void* const> one_of_each) {
  if (const LibraryOfKernel library_of = find_library_of_kernel()) {
    for (const void* one : one_of_each) {
      cudaKernel_t kernel = nullptr;
      CUlibrary library = nullptr;
      if (cudaGetKernel(&kernel, one) != cudaSuccess ||
          library_of(&library, kernel) != CUDA_SUCCESS)
        continue;
      cudaFuncAttributes attributes = {};  // asking for them loads a kernel
      for (cudaKernel_t each : kernels_of(library))
        (void)cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(each));
    }
  }
  (void)cudaGetLastError();
}

}  // namespace dllm::cuda
