// Recorded steps: the launches of a shape that comes a second time are captured, and replayed
// after. The first time they just run: recording costs as much time as it saves over a few steps,
// and a generation whose masked rows become fewer with every step has a new shape each time.
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
  bool was_seen(const StepKey& key);

  std::list<Entry> entries_;  // most recently used first
  std::list<StepKey> seen_;   // shapes that ran once, the last first
};

}  // namespace dllm::cuda
