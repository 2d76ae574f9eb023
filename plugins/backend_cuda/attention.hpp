// Bidirectional softmax attention per sequence and head, without storing length x length scores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "dllm/backend.hpp"
#include "heads.hpp"
#include "panels.hpp"

namespace dllm::cuda {

/// Dimensions of a head as attention reads them: HeadRows::stride. Throws Error (unsupported) for
/// heads wider than 256.
std::uint32_t attention_stride(std::uint32_t head_dim);

/// Keys of a span that is short: where warpgroups multiply, a kernel of its own takes it.
constexpr std::uint32_t kShortKeys = 192;

/// What the kernels have to know of the device's list of spans.
struct SpanList {
  const AttentionSpan* list = nullptr;  // on the device
  std::uint32_t n = 0;
  bool all_short = false;  // whatever the list holds when this runs
};

/// Where attention's result goes: rows, and the same as a product's input (a panel or none) where
/// may_have_panel() and all spans are short.
struct AttentionOut {
  Rows rows;
  Inputs inputs;
};

/// Definitions: Backend::attention. Queries that see no key get zeros.
void launch_attention(const HeadRows& q, const HeadRows& k, const HeadRows& v,
                      const SpanList& spans, const AttentionParams& params, const AttentionOut& out,
                      const GemmDevice& device, cudaStream_t stream);

/// Whether attention of these heads can write its result as such an input. With f16 v's group_scale
/// has to be given then, whether it does or not: products have to read the same either way.
bool may_have_panel(const HeadJobs& jobs, Way way, const GemmDevice& device);

}  // namespace dllm::cuda
