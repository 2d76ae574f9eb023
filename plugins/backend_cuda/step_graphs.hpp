// Recorded steps: the launches of a shape that keeps coming are captured, and replayed after
// (direct_runs.hpp).
//
//   graphs.run(stream, key, all_short, body);
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

  /// `all_short`: recorded steps are told apart by it, too (CudaAttentionSpans).
  void run(cudaStream_t stream, const StepKey& key, bool all_short,
           const std::function<void()>& body);
  void clear() noexcept;

 private:
  struct Shape {
    StepKey key;
    bool all_short;

    bool operator==(const Shape& other) const;
  };
  struct Entry {
    Shape shape;
    cudaGraphExec_t graph;
  };
  struct Seen {
    Shape shape;
    int times = 0;
  };
  Seen& seen(const Shape& shape);

  std::list<Entry> entries_;  // most recently used first
  std::list<Seen> seen_;      // shapes that ran and are not recorded, the last first
};

}  // namespace dllm::cuda
