// Recorded steps: the launches of a shape that keeps coming are captured, and replayed after, where
// launching them one by one is what a step waits for (step_choice.hpp). The first kDirectRuns times
// they just run: recording the 300 launches of an 8B takes 2.8 ms, half a step, and a generation
// whose masked rows become fewer with every step has a new shape each time.
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
#include "step_choice.hpp"

namespace dllm::cuda {

class StepGraphs {
 public:
  static constexpr int kTimedRuns = 3;  // the last of them

  explicit StepGraphs(Recording recording) : recording_(recording) {}
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs();

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
    StepTimes took = {};
  };
  Seen& seen(const Shape& shape);
  bool is_to_be_recorded(Seen& seen) const;
  void run_directly(cudaStream_t stream, Seen& seen, const std::function<void()>& body);
  void read_times();

  Recording recording_;
  std::list<Entry> entries_;  // most recently used first
  std::list<Seen> seen_;      // shapes that ran, the last first
  // The step whose times are not read yet: the first of seen_.
  bool timed_ = false;
  double host_ms_ = 0;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace dllm::cuda
