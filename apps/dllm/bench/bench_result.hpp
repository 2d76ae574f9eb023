// What dllm bench found, and its two forms: text for people, one JSON value (docs/bench.md).
// Thread rule: values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure.hpp"
#include "output/json.hpp"

namespace dllm::cli {

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};
/// `values` is not empty.
Spread spread_of(std::vector<double> values);

struct BenchResult {
  std::string model_path;
  std::string architecture;
  std::map<std::string, std::uint32_t> types;  ///< tensors of each type
  std::string backend;
  DeviceInfo device;
  Json backend_options;
  std::map<std::string, std::string> asked;  ///< those of them that were given
  std::string sampler;
  Json sampler_options;
  std::uint32_t canvas = 0;
  std::uint32_t n_prompt = 0;
  std::uint64_t seed = 0;
  BenchWork work;
  double load_ms = 0;
  std::vector<Repeat> repeats;  ///< at least one
  std::optional<DevicePeak> peak;
  std::optional<MemoryReport> memory;
  std::uint64_t peak_memory_bytes = 0;

  Spread ms_per_step() const;
  /// The repeat of the median step, or the two that it lies between.
  std::vector<const Repeat*> middle_repeats() const;
  /// What a step of the median took in `stage`: all stages add up to it.
  double stage_ms(Stage stage) const;
  /// A step's work; the same in every repeat.
  const StageFigures& stage_work(Stage stage) const;
  StageFigures all_work() const;
};

/// The shortest a step could take on the measured peak: reading the weights, or the arithmetic,
/// whichever is longer. Integer and f32 work are added: one unit does both.
struct StepLimit {
  double read_ms = 0;
  double arithmetic_ms = 0;
  double ms() const { return read_ms > arithmetic_ms ? read_ms : arithmetic_ms; }
};
std::optional<StepLimit> limit_of(const StageFigures& work, const std::optional<DevicePeak>& peak);

Json bench_json(const BenchResult& result);
std::string bench_text(const BenchResult& result);

}  // namespace dllm::cli
