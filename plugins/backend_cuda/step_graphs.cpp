#include "step_graphs.hpp"

#include <algorithm>
#include <cstddef>

#include "cuda_check.hpp"
#include "direct_runs.hpp"

namespace dllm::cuda {
namespace {

constexpr std::size_t kMostGraphs = 32;
constexpr std::size_t kMostSeen = 64;

cudaGraphExec_t capture(cudaStream_t stream, const std::function<void()>& body) {
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "starting to record a step");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream, &graph), "recording a step");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  cuda_check(status, "preparing a recorded step");
  return executable;
}

}  // namespace

bool StepGraphs::Shape::operator==(const Shape& other) const {
  return key.owner == other.key.owner && key.n_tokens == other.key.n_tokens &&
         key.n_score_rows == other.key.n_score_rows && key.n_sequences == other.key.n_sequences &&
         all_short == other.all_short;
}

// What is known of a shape, first in the list.
StepGraphs::Seen& StepGraphs::seen(const Shape& shape) {
  const auto known = std::find_if(seen_.begin(), seen_.end(),
                                  [&](const Seen& each) { return each.shape == shape; });
  if (known == seen_.end()) {
    seen_.push_front({shape});
    if (seen_.size() > kMostSeen) seen_.pop_back();
  } else {
    seen_.splice(seen_.begin(), seen_, known);
  }
  return seen_.front();
}

void StepGraphs::run(cudaStream_t stream, const StepKey& key, bool all_short,
                     const std::function<void()>& body) {
  const Shape shape = {key, all_short};
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& each) { return each.shape == shape; });
  if (entry == entries_.end()) {
    Seen& known = seen(shape);
    if (known.times < kDirectRuns) {
      ++known.times;
      return body();
    }
    if (entries_.size() == kMostGraphs) {
      (void)cudaGraphExecDestroy(entries_.back().graph);
      entries_.pop_back();
    }
    entries_.push_front({shape, capture(stream, body)});
    seen_.pop_front();
  } else if (entry != entries_.begin()) {
    entries_.splice(entries_.begin(), entries_, entry);
  }
  cuda_check(cudaGraphLaunch(entries_.front().graph, stream), "starting a step");
}

void StepGraphs::clear() noexcept {
  for (const Entry& entry : entries_) (void)cudaGraphExecDestroy(entry.graph);
  entries_.clear();
}

}  // namespace dllm::cuda
