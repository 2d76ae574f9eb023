// "step 12 after 5.2 s, 96 of 128 left" in one line of a terminal.
#pragma once

#include "output/console.hpp"
#include "output/step_observer.hpp"

namespace dllm::cli {

class ProgressLine final : public StepObserver {
 public:
  ProgressLine(Console& console, std::size_t n_predict)
      : console_(console), n_predict_(n_predict) {}
  void on_step(const StepView& view) override;
  void finish() override { console_.clear_status(); }

 private:
  Console& console_;
  std::size_t n_predict_;
};

}  // namespace dllm::cli
