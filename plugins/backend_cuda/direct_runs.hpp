// How often a step runs before it is recorded: known to the tests, too, which have no CUDA headers.
#pragma once

namespace dllm::cuda {

/// Times that a step of a shape is launched kernel by kernel before it is recorded: recording the
/// 300 launches of an 8B takes 2.8 ms, and a generation whose masked rows become fewer with every
/// step has a new shape each time.
constexpr int kDirectRuns = 8;

}  // namespace dllm::cuda
