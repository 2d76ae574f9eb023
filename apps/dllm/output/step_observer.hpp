// What watches a run step by step: the progress line, the canvas on screen, the statistics file.
// Thread rule: one thread.
#pragma once

#include <span>

#include "dllm/engine.hpp"

namespace dllm::cli {

/// One round of the run and the canvas after it; borrowed for the call.
struct StepView {
  const SequenceStep& step;
  std::span<const dllm_edit> edits;
  std::span<const std::int32_t> ids;    ///< the canvas
  std::span<const std::uint8_t> state;  ///< DLLM_POSITION_*
  double ms = 0;                        ///< of the engine step; 0 for rounds without a forward
  double run_ms = 0;                    ///< since the first step began
};

class StepObserver {
 public:
  StepObserver() = default;
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;
  virtual ~StepObserver() = default;
  virtual void on_step(const StepView& view) = 0;
  /// After the last step; throws Error where something could not be written.
  virtual void finish() {}
};

}  // namespace dllm::cli
