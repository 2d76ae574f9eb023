#include "bench/bench_result.hpp"

#include <algorithm>

namespace dllm::cli {

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {median, values.front(), values.back()};
}

Spread BenchResult::ms_per_step() const {
  std::vector<double> values;
  for (const Repeat& repeat : repeats) values.push_back(repeat.ms_per_step);
  return spread_of(values);
}

std::vector<const Repeat*> BenchResult::middle_repeats() const {
  std::vector<const Repeat*> sorted;
  for (const Repeat& repeat : repeats) sorted.push_back(&repeat);
  std::ranges::sort(sorted, {}, &Repeat::ms_per_step);
  const std::size_t n = sorted.size();
  return {sorted.begin() + static_cast<std::ptrdiff_t>((n - 1) / 2),
          sorted.begin() + static_cast<std::ptrdiff_t>(n / 2 + 1)};
}

double BenchResult::stage_ms(Stage stage) const {
  double sum = 0;
  const auto middle = middle_repeats();
  for (const Repeat* repeat : middle) sum += repeat->stages[static_cast<std::size_t>(stage)].ms;
  return sum / static_cast<double>(middle.size());
}

const StageFigures& BenchResult::stage_work(Stage stage) const {
  return repeats.front().stages[static_cast<std::size_t>(stage)];
}

StageFigures BenchResult::all_work() const {
  StageFigures sum;
  for (const StageFigures& each : repeats.front().stages) {
    sum.integer_operations += each.integer_operations;
    sum.float_operations += each.float_operations;
    sum.weight_bytes += each.weight_bytes;
  }
  return sum;
}

std::optional<StepLimit> limit_of(const StageFigures& work, const std::optional<DevicePeak>& peak) {
  if (!peak || peak->integer_tops <= 0 || peak->float_tflops <= 0 || peak->read_gb_per_s <= 0)
    return std::nullopt;
  StepLimit limit;
  limit.read_ms = work.weight_bytes / (peak->read_gb_per_s * 1e9) * 1e3;
  limit.arithmetic_ms = (work.integer_operations / (peak->integer_tops * 1e12) +
                         work.float_operations / (peak->float_tflops * 1e12)) *
                        1e3;
  return limit;
}

namespace {

double tops(const StageFigures& work, double ms) {
  return ms > 0 ? (work.integer_operations + work.float_operations) / (ms * 1e9) : 0;
}

double gb_per_s(const StageFigures& work, double ms) {
  return ms > 0 ? work.weight_bytes / (ms * 1e6) : 0;
}

double tokens_per_second(const BenchResult& result) {
  std::vector<double> values;
  for (const Repeat& repeat : result.repeats) values.push_back(repeat.tokens_per_second);
  return spread_of(values).median;
}

Json stages_json(const BenchResult& result) {
  Json stages = Json::object();
  for (std::size_t i = 0; i < kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    const StageFigures& work = result.stage_work(stage);
    const double ms = result.stage_ms(stage);
    stages[std::string(stage_name(stage))] = {
        {"ms", ms}, {"tops", tops(work, ms)}, {"gb_per_s", gb_per_s(work, ms)}};
  }
  return stages;
}

Json parts_json(const BenchResult& result) {
  Json parts = Json::object();
  const auto middle = result.middle_repeats();
  for (const PartTime& part : result.repeats.front().parts) {
    double sum = 0;
    for (const Repeat* repeat : middle) {
      const auto found = std::ranges::find(repeat->parts, part.name, &PartTime::name);
      sum += found == repeat->parts.end() ? 0 : found->ms;
    }
    parts[part.name] = sum / static_cast<double>(middle.size());
  }
  return parts;
}

// A count where all steps have the same, which is the rule; else their mean.
Json count_or_mean(double value) {
  const auto whole = static_cast<std::uint64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

// Keys of what could not be measured are null.
void add_peak(Json& json, const BenchResult& result) {
  json["peak"] = nullptr;
  json["limit_ms"] = nullptr;
  json["limit_share"] = nullptr;
  if (!result.peak) return;
  json["peak"] = {{"integer_tops", result.peak->integer_tops},
                  {"integer_unit", result.peak->integer_unit},
                  {"float_tflops", result.peak->float_tflops},
                  {"read_gb_per_s", result.peak->read_gb_per_s}};
  if (const auto limit = limit_of(result.all_work(), result.peak)) {
    json["limit_ms"] = limit->ms();
    json["limit_share"] = limit->ms() / result.ms_per_step().median;
  }
}

void add_memory(Json& json, const BenchResult& result) {
  json["memory"] = nullptr;
  if (!result.memory) return;
  const MemoryReport& memory = *result.memory;
  json["memory"] = {{"large_bytes", memory.resident_bytes},
                    {"huge_page_bytes", memory.huge_bytes},
                    {"huge_page_share", memory.resident_bytes == 0
                                            ? 0.0
                                            : static_cast<double>(memory.huge_bytes) /
                                                  static_cast<double>(memory.resident_bytes)},
                    {"huge_pages", memory.huge_pages}};
}

}  // namespace

Json bench_json(const BenchResult& result) {
  const Spread step = result.ms_per_step();
  const StageFigures work = result.all_work();
  Json stages_ms = {{"load", result.load_ms}};
  for (std::size_t i = 0; i < kStages; ++i)
    stages_ms[std::string(stage_name(static_cast<Stage>(i)))] =
        result.stage_ms(static_cast<Stage>(i));
  std::vector<double> repeats_ms;
  for (const Repeat& repeat : result.repeats) repeats_ms.push_back(repeat.ms_per_step);

  Json json = {{"model", result.model_path},
               {"architecture", result.architecture},
               {"types", result.types},
               {"backend", result.backend},
               {"device", result.device.name},
               {"isa", result.device.isa},
               {"threads", result.device.threads},
               {"backend_options", result.backend_options},
               {"sampler", {{"name", result.sampler}, {"options", result.sampler_options}}},
               {"canvas", result.canvas},
               {"prompt_tokens", result.n_prompt},
               {"rows", count_or_mean(result.repeats.front().rows)},
               {"steps", result.repeats.front().steps},
               {"repeat", result.repeats.size()},
               {"warmup", result.work.warmup},
               {"seed", result.seed},
               {"ms_per_step", {{"median", step.median}, {"min", step.min}, {"max", step.max}}},
               {"repeats_ms", repeats_ms},
               {"stages_ms", stages_ms},
               {"stages", stages_json(result)},
               {"parts_ms", parts_json(result)},
               {"tokens_per_second", tokens_per_second(result)},
               {"tops", tops(work, step.median)},
               {"gb_per_s", gb_per_s(work, step.median)},
               {"operations", work.integer_operations + work.float_operations},
               {"weight_bytes", work.weight_bytes}};
  add_peak(json, result);
  add_memory(json, result);
  json["peak_memory_bytes"] = result.peak_memory_bytes;
  json["version"] = version();
  return json;
}

}  // namespace dllm::cli
