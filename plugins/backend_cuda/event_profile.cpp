#include "event_profile.hpp"

#include "cuda_check.hpp"

namespace dllm::cuda {

EventProfile::~EventProfile() {
  for (const Entry& entry : entries_) {
    if (entry.begin) (void)cudaEventDestroy(entry.begin);
    if (entry.end) (void)cudaEventDestroy(entry.end);
  }
}

std::size_t EventProfile::begin(const StageSpan& span, cudaStream_t stream) {
  if (n_used_ == entries_.size()) {
    Entry& made = entries_.emplace_back();
    cuda_check(cudaEventCreate(&made.begin), "making an event");
    cuda_check(cudaEventCreate(&made.end), "making an event");
  }
  Entry& entry = entries_[n_used_];
  entry.span = span;
  cuda_check(cudaEventRecord(entry.begin, stream), "recording an event");
  return n_used_++;
}

// Called from destructors: a failure here shows at the next checked call.
void EventProfile::end(std::size_t place, const StageSpan& span, cudaStream_t stream) {
  entries_[place].span = span;
  (void)cudaEventRecord(entries_[place].end, stream);
}

// Device times are placed so that the last span ends now: only their distances are measured.
void EventProfile::report() {
  if (!sink_ || n_used_ == 0) {
    n_used_ = 0;
    return;
  }
  const Entry& last = entries_[n_used_ - 1];
  const std::int64_t now = profile_now_ns();
  const auto before_end = [&](cudaEvent_t event) {
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, event, last.end), "reading an event");
    return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
  };
  for (std::size_t i = 0; i < n_used_; ++i) {
    Entry& entry = entries_[i];
    entry.span.begin_ns = now - before_end(entry.begin);
    entry.span.end_ns = now - before_end(entry.end);
    sink_->span(entry.span);
  }
  n_used_ = 0;
}

}  // namespace dllm::cuda
