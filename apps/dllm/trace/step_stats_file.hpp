// --dump-step-stats FILE: one JSON value a line and step.
//
//   {"step": 0, "forward": true, "scored": 32,
//    "edits": [{"kind": "commit", "position": 17, "token": 5, "piece": "a", "confidence": 0.98}],
//    "masked": 127, "ms": 12.5}
//
// Thread rule: one thread.
#pragma once

#include <fstream>
#include <string>

#include "dllm/tokenizer.hpp"
#include "output/step_observer.hpp"

namespace dllm::cli {

class StepStatsFile final : public StepObserver {
 public:
  /// Creates or empties the file. Throws Error (bad_usage) where it cannot be written.
  StepStatsFile(const std::string& path, const Tokenizer& tokenizer);
  void on_step(const StepView& view) override;
  /// Throws Error (resource) when anything could not be written; the file, of which a part would be
  /// missing, is then removed.
  void finish() override;

 private:
  std::string path_;
  std::string reason_;  ///< why a line was not taken; empty where the system named none
  const Tokenizer& tokenizer_;
  std::ofstream out_;
};

}  // namespace dllm::cli
