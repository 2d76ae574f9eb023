// Whether a step is worth recording: replayed, it begins no sooner than one that is launched kernel
// by kernel, and it wins only where launches take longer than what they launch.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dllm::cuda {

/// Times that a shape is launched kernel by kernel before it may be recorded.
constexpr int kDirectRuns = 8;

/// Option `recording`.
enum class Recording : std::uint8_t { when_faster, always, never };

/// Times of a step that was launched kernel by kernel, the least of some: the host's until all was
/// launched, and the device's from its first kernel to its last.
class StepTimes {
 public:
  void add(double host_ms, double device_ms) {
    host_ms_ = n_ == 0 ? host_ms : std::min(host_ms_, host_ms);
    device_ms_ = n_ == 0 ? device_ms : std::min(device_ms_, device_ms);
    ++n_;
  }
  int n() const { return n_; }
  /// A device that waits for launches takes as long as they do.
  bool wait_for_launches() const { return n_ > 0 && host_ms_ > 0.75 * device_ms_; }

 private:
  int n_ = 0;
  double host_ms_ = 0;
  double device_ms_ = 0;
};

}  // namespace dllm::cuda
