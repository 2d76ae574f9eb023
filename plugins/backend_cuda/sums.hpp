// Sums of split products: the kernel for those that no other kernel adds while it reads them.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "device_rows.hpp"

namespace dllm::cuda {

/// Adds what is to be added to each, so that the rows hold the results. Of equally many rows.
void launch_add_sums(std::span<const SummedRows> all, cudaStream_t stream);

}  // namespace dllm::cuda
