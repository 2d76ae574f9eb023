// The rule about what belongs to the whole process: other sequences, the host and other plugins
// live in it too.
#include <fmt/format.h>

#include "check/process_state.hpp"
#include "check/rules.hpp"

namespace dllm::cli::checks {
namespace {

constexpr const char* kRule = "shared_process";

void expect_unchanged(const char* what, const ProcessState& before, const ProcessState& after) {
  const std::string changed = changed_state(before, after);
  if (!changed.empty()) throw Broken(kRule, fmt::format("{} changed {}", what, changed));
}

void expect_silent(const char* what, const std::string& written) {
  if (written.empty()) return;
  throw Broken(kRule, fmt::format("{} wrote to standard output: {}", what, written));
}

}  // namespace

void shared_process(const Subject& subject) {
  expect_silent("loading it", subject.loading.written);
  expect_unchanged("loading it", subject.loading.before, subject.loading.after);
  const ProcessState before = process_state();
  std::string written;
  {
    const CapturedOutput captured;
    const Scene scene = plain_scene();
    const auto sampler = subject.make(scene.facts);
    Rehearsal play(*sampler, scene);
    play.play();
    written = captured.text();
  }
  expect_silent("a play", written);
  expect_unchanged("a play", before, process_state());
}

}  // namespace dllm::cli::checks
