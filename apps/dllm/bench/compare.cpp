#include "bench/compare.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dllm/error.hpp"
#include "output/console.hpp"
#include "session/text_input.hpp"

namespace dllm::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& origin,
                         const std::string& reason) {
  throw Error(ErrorCode::bad_usage,
              fmt::format("'{}' is no result of dllm bench: {}", path, reason), origin,
              "give a file made by `dllm bench --json > FILE`");
}

// Of a time that is not 0, so that ratios can be read: from a femtosecond to 12 days.
constexpr double kLeastMs = 1e-12;
constexpr double kMostMs = 1e9;

bool is_number(const Json& json, const std::string& key) {
  return json.contains(key) && json[key].is_number();
}

double ratio_of(double now, double old) { return old > 0 ? now / old : 0; }

double relative_range(const Json& spread) {
  const double median = spread["median"].get<double>();
  const double range = spread["max"].get<double>() - spread["min"].get<double>();
  return median > 0 ? range / (2 * median) : 0;
}

// A single repeat has no range: nothing can be said of its noise.
bool has_range(const Json& result) {
  const Json& spread = result["ms_per_step"];
  return spread["max"].get<double>() > spread["min"].get<double>();
}

double noise_of(const Json& old, const Json& now) {
  return std::max(relative_range(old["ms_per_step"]), relative_range(now["ms_per_step"]));
}

std::string verdict(const Json& old, const Json& now) {
  const Json& before = old["ms_per_step"];
  const Json& after = now["ms_per_step"];
  const double ratio = ratio_of(after["median"].get<double>(), before["median"].get<double>());
  if (std::max(ratio, 1 / ratio) <= 1 + noise_of(old, now)) return "within noise";
  if (after["max"].get<double>() < before["min"].get<double>()) return "faster";
  if (after["min"].get<double>() > before["max"].get<double>()) return "slower";
  return "within noise";
}

// What makes the two another measurement altogether.
Json differences(const Json& old, const Json& now) {
  Json found = Json::array();
  for (const char* key :
       {"model", "types", "backend", "device", "isa", "threads", "backend_options", "sampler",
        "canvas", "prompt_tokens", "rows", "steps"}) {
    if (old.contains(key) && now.contains(key) && old[key] != now[key]) found.push_back(key);
  }
  return found;
}

double checked_ms(const Json& ms, const std::string& name, const std::string& path,
                  const std::string& origin) {
  if (!ms.is_number()) refuse(path, origin, fmt::format("{} is no number", name));
  const auto value = ms.get<double>();
  if (value == 0 || (value >= kLeastMs && value <= kMostMs)) return value;
  refuse(path, origin,
         fmt::format("{} is {} ms, allowed are {} to {}", name, value, kLeastMs, kMostMs));
}

void check_spread(const Json& spread, const std::string& path, const std::string& origin) {
  for (const char* key : {"median", "min", "max"}) {
    const std::string name = fmt::format("'{}' of its ms_per_step", key);
    if (!spread.contains(key)) refuse(path, origin, name + " is missing");
    if (checked_ms(spread[key], name, path, origin) == 0) refuse(path, origin, name + " is 0");
  }
  const auto value = [&](const char* key) { return spread[key].get<double>(); };
  if (value("min") <= value("median") && value("median") <= value("max")) return;
  refuse(path, origin,
         fmt::format("the median of its ms_per_step, {}, is not between {} and {}", value("median"),
                     value("min"), value("max")));
}

}  // namespace

Json read_bench_result(const std::string& path, const std::string& origin) {
  const std::string text = read_text_file(path, origin);
  const Json json = Json::parse(text, nullptr, false);
  // The library takes a NUL byte for the end of the text.
  if (json.is_discarded() || text.find('\0') != text.npos) refuse(path, origin, "it is no JSON");
  if (!json.is_object() || !json.contains("ms_per_step") || !json["ms_per_step"].is_object())
    refuse(path, origin, "it has no ms_per_step");
  check_spread(json["ms_per_step"], path, origin);
  if (!json.contains("stages_ms") || !json["stages_ms"].is_object())
    refuse(path, origin, "it has no stages_ms");
  for (const auto& [stage, ms] : json["stages_ms"].items())
    checked_ms(ms, fmt::format("stage '{}'", single_line(stage)), path, origin);
  return json;
}

Json compare_json(const Json& old, const std::string& path, const Json& now) {
  const double before = old["ms_per_step"]["median"].get<double>();
  const double after = now["ms_per_step"]["median"].get<double>();
  const bool known = has_range(old) && has_range(now);
  Json stages = Json::object();
  for (const auto& [stage, ms] : now["stages_ms"].items()) {
    if (!is_number(old["stages_ms"], stage)) continue;
    const double old_ms = old["stages_ms"][stage].get<double>();
    stages[stage] = {
        {"old", old_ms}, {"new", ms.get<double>()}, {"ratio", ratio_of(ms.get<double>(), old_ms)}};
  }
  return {{"file", path},
          {"ms_per_step",
           {{"old", before},
            {"new", after},
            {"ratio", ratio_of(after, before)},
            {"noise", known ? Json(noise_of(old, now)) : Json(nullptr)},
            {"verdict", known ? verdict(old, now) : "unknown"}}},
          {"stages_ms", stages},
          {"differences", differences(old, now)}};
}

std::string compare_text(const Json& comparison) {
  const auto line = [](std::string_view name, const Json& each) {
    return fmt::format("{:<10} {:>10.3f} {:>10.3f} {:>7.3f}", name, each["old"].get<double>(),
                       each["new"].get<double>(), each["ratio"].get<double>());
  };
  const Json& step = comparison["ms_per_step"];
  std::string text = fmt::format("\nagainst {}\n{:<10} {:>10} {:>10} {:>7}\n",
                                 single_line(comparison["file"].get<std::string>()), "stage",
                                 "old ms", "new ms", "new/old");
  for (const auto& [stage, each] : comparison["stages_ms"].items())
    text += line(stage, each) + "\n";
  text += fmt::format("{}  {}\n", line("step", step),
                      step["noise"].is_null()
                          ? "no verdict: one side has a single repeat, which tells nothing of noise"
                          : fmt::format("{}, noise {:.1f} %", step["verdict"].get<std::string>(),
                                        100 * step["noise"].get<double>()));
  const Json& differences = comparison["differences"];
  if (!differences.empty())
    text += fmt::format("not the same measurement: {} differ\n",
                        fmt::join(differences.get<std::vector<std::string>>(), ", "));
  return text;
}

}  // namespace dllm::cli
