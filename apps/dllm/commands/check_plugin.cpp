// dllm check-plugin FILE: does a sampler keep the rules of the boundary? Each is tried in a process
// of its own, so that a crash or an endless loop breaks one rule and tells which.
#include <fmt/format.h>

#include <algorithm>

#include "check/process_state.hpp"
#include "check/report.hpp"
#include "check/rules.hpp"
#include "check/run_apart.hpp"
#include "commands/commands.hpp"
#include "dllm/error.hpp"
#include "session/plugin_options.hpp"

namespace dllm::cli {
namespace {

constexpr std::chrono::seconds kLimit(30);

constexpr std::string_view kLoads = "loads";  // asked of every plugin, always

// First letters of what comes back from a child.
constexpr char kKept = 'k';
constexpr char kBroken = 'b';
constexpr char kNotAsked = 'n';

// Loading runs the plugin's code; so it is tried apart first.
Finding try_loading(const std::string& path) {
  Finding finding{std::string(kLoads),
                  "file, descriptor, entry, table and options are accepted",
                  Verdict::kept,
                  {}};
  const Apart apart = run_apart(
      [&] {
        const Log quiet;
        PluginRegistry registry(quiet);
        registry.scan_file(path);
        return registry.records().back().reason;
      },
      kLimit);
  if (apart.returned && apart.text.empty()) return finding;
  finding.verdict = Verdict::broken;
  finding.detail = apart.text;
  return finding;
}

Loading load(const std::string& path, PluginRegistry& registry) {
  Loading loading{.before = process_state(), .after = {}, .written = {}};
  {
    const CapturedOutput captured;
    registry.scan_file(path);
    loading.written = captured.text();
  }
  loading.after = process_state();
  return loading;
}

std::string try_rule(const Rule& rule, const Subject& subject) {
  try {
    rule.check(subject);
  } catch (const NotAsked& why) {
    return std::string(1, kNotAsked) + why.what();
  } catch (const Broken& broken) {
    return std::string(1, kBroken) + broken.what();
  } catch (const Error& error) {
    // It may say that options and canvas do not fit each other; then there is nothing to try.
    const bool refuses = error.code() == ErrorCode::bad_usage;
    return std::string(1, refuses ? kNotAsked : kBroken) + error.fact();
  }
  return std::string(1, kKept);
}

// The first rule among those `rule` builds on that was not kept, or empty.
std::string missing_need(const Rule& rule, const std::vector<Finding>& so_far) {
  for (const Finding& finding : so_far) {
    if (finding.verdict == Verdict::kept) continue;
    for (const std::string_view need : split_words(rule.needs)) {
      if (finding.rule == need) return finding.rule;
    }
  }
  return {};
}

Finding ask(const Rule& rule, const Subject& subject, const std::vector<Finding>& so_far) {
  Finding finding{std::string(rule.id), std::string(rule.claim), Verdict::not_asked, {}};
  if (const std::string need = missing_need(rule, so_far); !need.empty()) {
    finding.detail = fmt::format("{} must be kept first", need);
    return finding;
  }
  const Apart apart = run_apart([&] { return try_rule(rule, subject); }, kLimit);
  if (!apart.returned) {
    finding.verdict = Verdict::broken;
    finding.detail = apart.text;
    return finding;
  }
  const char first = apart.text.front();
  finding.detail = apart.text.substr(1);
  if (first == kKept) finding.verdict = Verdict::kept;
  if (first == kBroken) finding.verdict = Verdict::broken;
  return finding;
}

void check_rule_names(const std::vector<std::string>& chosen) {
  std::vector<std::string> names = {std::string(kLoads)};
  for (const Rule& rule : sampler_rules()) names.emplace_back(rule.id);
  for (const std::string& name : chosen) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::string near = nearest_match(name, names);
    throw Error(ErrorCode::bad_usage, fmt::format("there is no rule '{}'", name), "--rule",
                near.empty() ? fmt::format("rules are {}", fmt::join(names, ", "))
                             : fmt::format("did you mean '{}'?", near));
  }
}

// Of a backend or a model loading is all that is tried: options and rules are a sampler's.
void refuse_what_only_samplers_have(const PluginRecord& record, const Settings& settings) {
  if (record.kind != PluginKind::backend && record.kind != PluginKind::model) return;
  const auto refuse = [&](const std::string& fact, const std::string& origin) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("{}, and {} is a {}", fact, record.path.string(),
                            plugin_kind_name(record.kind)),
                origin, "leave it out: of backends and models only loading is checked");
  };
  for (const auto& [name, setting] : settings.plugin_options(Owner::sampler)) {
    if (setting.place != kCommandLine) continue;  // a config file's serve other commands
    refuse(fmt::format("{} is an option of samplers", name), setting.origin());
  }
  for (const std::string& rule : settings.list("rule")) {
    if (rule == kLoads) continue;
    refuse(fmt::format("rule {} is for samplers", rule), settings.origin("rule"));
  }
}

// Those of `chosen`, or all where it is empty.
void ask_all(const Subject& subject, const std::vector<std::string>& chosen, Console& console,
             std::vector<Finding>& findings) {
  std::string stopped_by;
  for (const Rule& rule : sampler_rules()) {
    if (!chosen.empty() && std::ranges::find(chosen, rule.id) == chosen.end()) continue;
    if (!stopped_by.empty()) {
      findings.push_back({std::string(rule.id), std::string(rule.claim), Verdict::not_asked,
                          fmt::format("{} must be kept first", stopped_by)});
      continue;
    }
    console.status(fmt::format("trying {}", rule.id));
    findings.push_back(ask(rule, subject, findings));
    if (rule.base && findings.back().verdict == Verdict::broken) stopped_by = rule.id;
  }
  console.clear_status();
}

}  // namespace

int check_plugin_command(const Settings& settings, Console& console) {
  const std::string path = settings.text("plugin");
  if (path.empty()) {
    throw Error(ErrorCode::bad_usage, "no plugin to check", "command line",
                "write `dllm check-plugin FILE`");
  }
  check_rule_names(settings.list("rule"));
  refuse_what_only_samplers_have(inspect_plugin(path), settings);
  std::vector<Finding> findings = {try_loading(path)};
  PluginRecord record;
  record.path = path;
  const Log quiet;
  PluginRegistry registry(quiet);
  Loading loading;
  if (findings[0].verdict == Verdict::kept) {
    loading = load(path, registry);
    record = registry.records().back();
  } else {
    record = inspect_plugin(path);  // what its descriptor says, without its code
  }
  if (record.accepted && record.kind == PluginKind::sampler) {
    ask_all({record, sampler_options(registry, record, settings), std::move(loading)},
            settings.list("rule"), console, findings);
  }
  write_answer(settings.flag("json") ? dump_line(findings_json(record, findings)) + "\n"
                                     : findings_text(record, findings));
  const std::size_t broken = count_of(findings, Verdict::broken);
  if (broken == 0) return 0;
  throw Error(ErrorCode::bad_plugin,
              fmt::format("{} {} broken", broken, broken == 1 ? "rule is" : "rules are"), path,
              "the report names each; docs/plugins.md says what they ask");
}

}  // namespace dllm::cli
