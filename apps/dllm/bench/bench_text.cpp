// The text form of a result.
#include <fmt/format.h>

#include <cmath>

#include "bench/bench_result.hpp"
#include "output/console.hpp"

namespace dllm::cli {
namespace {

std::string types_text(const BenchResult& result) {
  std::string text;
  for (const auto& [type, count] : result.types)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, type);
  return text;
}

// What was asked of the device, where it is not what the device's own words say.
std::string asked_text(const BenchResult& result) {
  std::string text;
  for (const auto& [name, value] : result.asked) {
    text += fmt::format("{} {} {}", text.empty() ? "; asked for:" : ",", name, single_line(value));
    const bool other = name == "threads" && value != std::to_string(result.device.threads);
    if (other && value != "0") text += fmt::format(" ({} are used)", result.device.threads);
  }
  return text;
}

std::string head_lines(const BenchResult& result) {
  const Repeat& first = result.repeats.front();
  return fmt::format(
      "model   {}: {}, {}\n"
      "device  {} {}{}\n"
      "work    canvas {} ({} prompt, {} to fill), {} scored, {} x {}, sampler {}, "
      "seed {}\n",
      single_line(result.model_path), result.architecture, types_text(result), result.backend,
      single_line(result.device.name), asked_text(result), result.canvas, result.n_prompt,
      result.canvas - result.n_prompt,
      counted(static_cast<std::size_t>(std::lround(first.rows)), "row"), result.repeats.size(),
      counted(first.steps, "step"), result.sampler, result.seed);
}

std::string stage_lines(const BenchResult& result) {
  const double step_ms = result.ms_per_step().median;
  std::string lines = fmt::format("\n{:<10} {:>10} {:>7} {:>7} {:>7}\n", "stage", "ms a step",
                                  "share", "TOPS", "GB/s");
  for (std::size_t i = 0; i < kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    const double ms = result.stage_ms(stage);
    if (ms == 0) continue;  // nothing was told of it
    const StageFigures& work = result.stage_work(stage);
    const double operations = work.integer_operations + work.float_operations;
    const auto rate = [&](double amount, double unit) {
      return amount > 0 && ms > 0 ? fmt::format("{:.2f}", amount / (ms * unit)) : std::string("-");
    };
    lines += fmt::format("{:<10} {:>10.3f} {:>5.1f} % {:>7} {:>7}\n", stage_name(stage), ms,
                         step_ms > 0 ? 100 * ms / step_ms : 0, rate(operations, 1e9),
                         rate(work.weight_bytes, 1e6));
  }
  return lines + "\n";
}

std::string peak_lines(const BenchResult& result) {
  if (!result.peak) return {};
  const DevicePeak& peak = *result.peak;
  std::string lines =
      fmt::format("peak    {:.3f} TOPS ({}), {:.3f} TFLOP/s f32, {:.1f} GB/s read, measured now\n",
                  peak.integer_tops, peak.integer_unit, peak.float_tflops, peak.read_gb_per_s);
  if (const auto limit = limit_of(result.all_work(), result.peak)) {
    lines +=
        fmt::format("limit   {:.1f} ms a step by {}; the step takes {:.1f} times that\n",
                    limit->ms(), limit->read_ms > limit->arithmetic_ms ? "reading" : "arithmetic",
                    result.ms_per_step().median / limit->ms());
  }
  return lines;
}

std::string bytes_text(std::uint64_t bytes) {
  const auto n = static_cast<double>(bytes);
  return n < 1e9 ? fmt::format("{:.1f} MB", n / 1e6) : fmt::format("{:.2f} GB", n / 1e9);
}

std::string memory_line(const BenchResult& result) {
  std::string line = fmt::format("memory  {} at most", bytes_text(result.peak_memory_bytes));
  if (result.memory && result.memory->resident_bytes > 0) {
    line += fmt::format("; of {} in large pieces {:.0f} % lie in huge pages",
                        bytes_text(result.memory->resident_bytes),
                        100 * static_cast<double>(result.memory->huge_bytes) /
                            static_cast<double>(result.memory->resident_bytes));
    if (!result.memory->huge_pages.empty())
      line += fmt::format(" (the system says {})", result.memory->huge_pages);
  }
  return line + "\n";
}

}  // namespace

std::string bench_text(const BenchResult& result) {
  const Spread step = result.ms_per_step();
  const Json json = bench_json(result);
  return head_lines(result) +
         fmt::format(
             "load    {:.0f} ms\nstep    {:.2f} ms ({:.2f} to {:.2f}), {:.2f} tokens/s, "
             "{:.3f} TOPS, {:.2f} GB/s\n",
             result.load_ms, step.median, step.min, step.max,
             json["tokens_per_second"].get<double>(), json["tops"].get<double>(),
             json["gb_per_s"].get<double>()) +
         stage_lines(result) + peak_lines(result) + memory_line(result);
}

}  // namespace dllm::cli
