// Stage times of a device that runs behind its caller: an event before and after each op.
//
//   const EventTimer timer(profile_, Stage::qkv, "norm_linear", stream);   // in an op
//   profile_.report();                                                     // after waiting
//
// Events cannot be placed inside a recorded step, so a backend with a sink set runs steps op by op.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dllm/profile.hpp"

namespace dllm::cuda {

class EventProfile {
 public:
  EventProfile() = default;
  EventProfile(const EventProfile&) = delete;
  EventProfile& operator=(const EventProfile&) = delete;
  ~EventProfile();

  /// Null: nothing is measured.
  void set_sink(ProfileSink* sink) noexcept { sink_ = sink; }
  bool active() const noexcept { return sink_ != nullptr; }
  /// Spans recorded since the last call, to the sink; the device has finished them.
  void report();

  std::size_t begin(const StageSpan& span, cudaStream_t stream);
  void end(std::size_t place, const StageSpan& span, cudaStream_t stream);

 private:
  struct Entry {
    StageSpan span;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };
  ProfileSink* sink_ = nullptr;
  std::vector<Entry> entries_;  // events are kept and used again
  std::size_t n_used_ = 0;
};

class EventTimer {
 public:
  EventTimer(EventProfile& profile, Stage stage, const char* name, cudaStream_t stream)
      : profile_(profile), stream_(stream), active_(profile.active()) {
    span_.stage = stage;
    span_.name = name;
    if (active_) place_ = profile_.begin(span_, stream_);
  }
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;
  ~EventTimer() {
    if (active_) profile_.end(place_, span_, stream_);
  }

  void add_work(double operations, double weight_bytes) noexcept {
    span_.float_operations += operations;
    span_.weight_bytes += weight_bytes;
  }

 private:
  EventProfile& profile_;
  cudaStream_t stream_;
  bool active_;
  StageSpan span_;
  std::size_t place_ = 0;
};

}  // namespace dllm::cuda
