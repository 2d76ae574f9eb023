#include "output/progress_line.hpp"

#include <fmt/format.h>

namespace dllm::cli {

void ProgressLine::on_step(const StepView& view) {
  console_.status(fmt::format("step {} after {:.1f} s, {} of {} left", view.step.step + 1,
                              view.run_ms / 1000, view.step.n_masked, n_predict_));
}

}  // namespace dllm::cli
