// Bidirectional softmax attention per sequence and head, without storing length x length scores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "dllm/backend.hpp"
#include "heads.hpp"
#include "rows.hpp"

namespace dllm::cuda {

/// Dimensions of a head as attention reads them: HeadRows::stride. Throws Error (unsupported) for
/// heads wider than 256.
std::uint32_t attention_stride(std::uint32_t head_dim);

/// Definitions: Backend::attention. `has_warpgroups`: GemmDevice's. `spans` lies on the device.
/// Queries that see no key get zeros.
void launch_attention(const HeadRows& q, const HeadRows& k, const HeadRows& v,
                      const AttentionSpan* spans, std::uint32_t n_spans,
                      const AttentionParams& params, Rows out, bool has_warpgroups,
                      cudaStream_t stream);

}  // namespace dllm::cuda
