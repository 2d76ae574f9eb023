// Recorded steps: the launches of a step are captured once per shape and replayed after.
//
//   graphs.run(stream, key, body);
//
// Bounded: the shape used longest ago is forgotten. Whatever a graph points to must not move: the
// backend calls clear() when it frees or moves memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <list>

#include "dllm/backend.hpp"

namespace dllm::cuda {

class StepGraphs {
 public:
  StepGraphs() = default;
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs() { clear(); }

  void run(cudaStream_t stream, const StepKey& key, const std::function<void()>& body);
  void clear() noexcept;

 private:
  struct Entry {
    StepKey key;
    cudaGraphExec_t graph;
  };
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace dllm::cuda
