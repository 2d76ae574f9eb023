// Bidirectional softmax attention per sequence and head, without storing length x length scores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "dllm/backend.hpp"
#include "rows.hpp"

namespace dllm::cuda {

/// Definitions: Backend::attention. `spans` lies on the device. Queries that see no key get zeros.
/// Throws Error (unsupported) for heads wider than 256.
void launch_attention(Rows q, Rows k, Rows v, const AttentionSpan* spans, std::uint32_t n_spans,
                      const AttentionParams& params, Rows out, cudaStream_t stream);

}  // namespace dllm::cuda
