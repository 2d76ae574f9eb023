#include "output/progress_line.hpp"

#include <fmt/format.h>

namespace dllm::cli {

void ProgressLine::on_step(const StepView& view) {
  console_.status(fmt::format("step {}  {} of {} left  {:.1f} s", view.step.step + 1,
                              view.step.n_masked, n_predict_, watch_.elapsed_ms() / 1000));
}

}  // namespace dllm::cli
