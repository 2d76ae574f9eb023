// The rules of the sampler boundary, each as something that can be tried on any sampler.
//
//   for (const Rule& rule : sampler_rules()) rule.check(subject);
//
// Thread rule: constant data; a check runs in a process of its own (run_apart).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "check/process_state.hpp"
#include "check/rehearsal.hpp"
#include "dllm/plugin.hpp"

namespace dllm::cli {

/// What loading the plugin did to this process.
struct Loading {
  ProcessState before, after;
  std::string written;  ///< to standard output
};

/// What is tried: a plugin, and the option values the user wants it tried with.
struct Subject {
  const PluginRecord& record;
  OptionValues values;
  Loading loading{};

  std::unique_ptr<Sampler> make(const dllm_model_facts& facts) const { return make(facts, values); }
  std::unique_ptr<Sampler> make(const dllm_model_facts& facts, const OptionValues& with) const;
};

/// Thrown by a check that has nothing to ask of this sampler.
class NotAsked : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Rule {
  std::string_view id;
  std::string_view claim;
  void (*check)(const Subject&);  ///< throws Broken, NotAsked, or returns: kept
  bool base = false;              ///< where broken, the rules after it cannot be tried
  std::string_view needs{};       ///< rules that must be kept, separated by a space
};

std::span<const Rule> sampler_rules();

// Checks by file; sampler_rules() lists them in order.
namespace checks {
void options(const Subject&);  // one_play.cpp
void calls(const Subject&);
void plans(const Subject&);
void edits(const Subject&);
void reads_only(const Subject&);
void progress(const Subject&);
void fills(const Subject&);
void step_budget(const Subject&);
void repeatable(const Subject&);  // several_plays.cpp
void plan_twice(const Subject&);
void own_buffers(const Subject&);
void batch(const Subject&);
void threads(const Subject&);
void no_globals(const Subject&);
void holes(const Subject&);  // scenes.cpp
void small_canvas(const Subject&);
void long_canvas(const Subject&);
void nothing_to_do(const Subject&);
void filled_by_others(const Subject&);
void remasked_by_others(const Subject&);
void huge_vocabulary(const Subject&);
void no_special_ids(const Subject&);
void no_candidate(const Subject&);  // faults.cpp
void not_a_number(const Subject&);
void wide_answers(const Subject&);
void newer_host(const Subject&);  // other_hosts.cpp
void older_host(const Subject&);
void frees_all(const Subject&);       // frees_all.cpp
void shared_process(const Subject&);  // shared_process.cpp
}  // namespace checks

}  // namespace dllm::cli
