// Rules that one play of a plain canvas tells, and those of its options.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "check/rules.hpp"
#include "dllm/error.hpp"

namespace dllm::cli::checks {
namespace {

// The rules in the order in which a play can break them: a play that broke a later one kept this.
constexpr std::array<std::string_view, 6> kOrder = {"calls",      "plans",    "edits",
                                                    "reads_only", "progress", "fills"};

std::size_t rank(std::string_view rule) {
  return static_cast<std::size_t>(std::ranges::find(kOrder, rule) - kOrder.begin());
}

void play_plainly(const Subject& subject) {
  const Scene scene = plain_scene();
  try {
    const auto sampler = subject.make(scene.facts);
    Rehearsal play(*sampler, scene);
    play.play();
    if (play.canvas().n_masked() == 0) return;
    throw Broken("fills", fmt::format("{} of {} positions are masked at the end of {} rounds",
                                      play.canvas().n_masked(), play.canvas().size(),
                                      play.transcript().size()));
  } catch (const Error& error) {  // from create and start
    throw Broken("calls", error.fact());
  }
}

// The first fault of a plain play, where it is of `rule`. A base rule before it was kept, or this
// one would not be asked.
void expect_of_plain_play(const Subject& subject, std::string_view rule) {
  try {
    play_plainly(subject);
  } catch (const Broken& broken) {
    if (rank(broken.rule) <= rank(rule)) throw;
  }
}

// Values at the ends of what `info` allows.
std::vector<std::string> edge_values(const OptionInfo& info) {
  switch (info.type) {
    case OptionType::boolean:
      return {"false", "true"};
    case OptionType::choice:
      return info.choices;
    case OptionType::integer:
    case OptionType::number: {
      std::vector<std::string> values;
      if (!info.minimum_exclusive && std::isfinite(info.minimum)) {
        values.push_back(fmt::format("{}", info.minimum));
      }
      if (!info.maximum_exclusive && std::isfinite(info.maximum)) {
        values.push_back(info.type == OptionType::integer ? fmt::format("{:.0f}", info.maximum)
                                                          : fmt::format("{}", info.maximum));
      }
      return values;
    }
    case OptionType::text:
      return {};
  }
  return {};
}

void try_value(const Subject& subject, const OptionInfo& info, const std::string& text) {
  const Scene scene = plain_scene();
  OptionValues values = subject.values;
  values[info.name] = parse_option(info, text, subject.record.id);
  try {
    const auto sampler = subject.make(scene.facts, values);
    Rehearsal play(*sampler, scene);
    play.plan();
  } catch (const Broken& broken) {
    throw Broken("options", fmt::format("{} = {}: {}", info.name, text, broken.what()));
  } catch (const Error& error) {
    const bool silent = error.fact().find("and no message") != std::string::npos;
    if (error.code() == ErrorCode::bad_usage && !silent) return;  // refused, and says why
    throw Broken("options", fmt::format("{} = {}: {}", info.name, text, error.fact()));
  }
}

}  // namespace

void options(const Subject& subject) {
  for (const OptionInfo& info : subject.record.options) {
    for (const std::string& text : edge_values(info)) try_value(subject, info, text);
  }
}

void calls(const Subject& subject) { expect_of_plain_play(subject, "calls"); }
void plans(const Subject& subject) { expect_of_plain_play(subject, "plans"); }
void edits(const Subject& subject) { expect_of_plain_play(subject, "edits"); }
void reads_only(const Subject& subject) { expect_of_plain_play(subject, "reads_only"); }
void progress(const Subject& subject) { expect_of_plain_play(subject, "progress"); }
void fills(const Subject& subject) { expect_of_plain_play(subject, "fills"); }

void step_budget(const Subject& subject) {
  const auto found = std::ranges::find(subject.record.options, "steps", &OptionInfo::name);
  if (found == subject.record.options.end() || found->type != OptionType::integer) {
    throw NotAsked("it has no option steps");
  }
  const Scene scene = plain_scene();
  for (const std::uint32_t steps : {1u, 2u, 5u, 24u}) {
    OptionValues values = subject.values;
    try {
      values["steps"] = parse_option(*found, std::to_string(steps), subject.record.id);
      const auto sampler = subject.make(scene.facts, values);
      Rehearsal play(*sampler, scene);
      play.play();
      if (play.forwards() > steps || play.canvas().n_masked() != 0) {
        throw Broken("step_budget", fmt::format("steps {}: {} forwards, {} positions still masked",
                                                steps, play.forwards(), play.canvas().n_masked()));
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_usage) throw;  // so few steps do not fit its options
    }
  }
}

}  // namespace dllm::cli::checks
