// A host for one sampler plugin, as small as the C boundary allows: loads the shared object, checks
// options, makes samplers and runs, and answers plans from logits with the head-statistics oracle.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dllm/head_stats.hpp"
#include "dllm/options.hpp"
#include "dllm_sdk/sampler_abi.h"
#include "dllm_sdk/testing.hpp"
#include "head_stats_oracle.hpp"

namespace dllm::test {

using Texts = std::map<std::string, std::string, std::less<>>;

using sdk::testing::check;
using sdk::testing::no_error;
using PluginFailure = sdk::testing::Refused;
using HostCanvas = sdk::testing::Board;

inline const dllm_sampler_v1* load_sampler(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded
  if (library == nullptr) throw std::runtime_error(dlerror());
  auto entry = reinterpret_cast<dllm_plugin_entry_fn>(dlsym(library, DLLM_PLUGIN_ENTRY_NAME));
  if (entry == nullptr) throw std::runtime_error(path + " has no entry");
  dllm_host_v1 host{};
  host.struct_size = sizeof host;
  host.abi_major = DLLM_PLUGIN_ABI_MAJOR;
  host.abi_minor = DLLM_PLUGIN_ABI_MINOR;
  dllm_error error = no_error();
  const auto* table = static_cast<const dllm_sampler_v1*>(entry(&host, &error));
  if (table == nullptr) throw std::runtime_error(error.message);
  return table;
}

inline std::vector<OptionInfo> option_infos(const dllm_sampler_v1& table) {
  std::vector<OptionInfo> infos;
  for (std::uint32_t i = 0; i < table.n_options; ++i) {
    const dllm_option_info& from = table.options[i];
    OptionInfo info;
    info.name = from.name;
    info.type = static_cast<OptionType>(from.type);
    info.default_value = from.default_value;
    info.help = from.help;
    info.minimum = from.minimum;
    info.maximum = from.maximum;
    info.minimum_exclusive = (from.flags & DLLM_OPTION_MINIMUM_EXCLUSIVE) != 0;
    info.maximum_exclusive = (from.flags & DLLM_OPTION_MAXIMUM_EXCLUSIVE) != 0;
    info.choices.assign(from.choices, from.choices + from.n_choices);
    infos.push_back(std::move(info));
  }
  return infos;
}

inline dllm_model_facts small_facts(std::uint32_t n_vocab, std::int32_t mask_id) {
  dllm_model_facts facts{};
  facts.struct_size = sizeof facts;
  facts.n_vocab = n_vocab;
  facts.n_tokens = n_vocab;
  facts.mask_id = mask_id;
  facts.bos_id = facts.eos_id = facts.eot_id = facts.pad_id = -1;
  facts.context_length = 4096;
  return facts;
}

class HostSampler {
 public:
  HostSampler(const dllm_sampler_v1& table, const Texts& given, const dllm_model_facts& facts)
      : table_(table) {
    const std::vector<OptionInfo> infos = option_infos(table);
    const OptionValues checked = check_options(infos, given, "sampler");
    std::vector<dllm_option_value> values;
    for (std::uint32_t i = 0; i < table.n_options; ++i) {
      const OptionValue& value = checked.at(table.options[i].name);
      values.push_back({table.options[i].name, value.text.c_str(), value.integer, value.number});
    }
    dllm_error error = no_error();
    check(table.create(values.data(), table.n_options, &facts, &sampler_, &error), error);
  }
  HostSampler(const HostSampler&) = delete;
  HostSampler& operator=(const HostSampler&) = delete;
  ~HostSampler() {
    if (sampler_ != nullptr) table_.destroy(sampler_);
  }

  const dllm_sampler_v1& table() const { return table_; }
  const dllm_sampler* handle() const { return sampler_; }

 private:
  const dllm_sampler_v1& table_;
  dllm_sampler* sampler_ = nullptr;
};

class HostRun {
 public:
  HostRun(const HostSampler& sampler, const HostCanvas& canvas, std::uint64_t seed)
      : table_(sampler.table()) {
    dllm_error error = no_error();
    const dllm_canvas view = canvas.view();
    check(table_.start(sampler.handle(), &view, seed, &run_, &error), error);
  }
  HostRun(const HostRun&) = delete;
  HostRun& operator=(const HostRun&) = delete;
  ~HostRun() {
    if (run_ != nullptr) table_.end(run_);
  }

  dllm_plan plan(const HostCanvas& canvas) {
    dllm_plan out{};
    out.struct_size = sizeof out;
    out.top_p = 1;
    out.window_end = static_cast<std::uint32_t>(canvas.ids.size());
    dllm_error error = no_error();
    const dllm_canvas view = canvas.view();
    check(table_.plan(run_, &view, &out, &error), error);
    return out;
  }
  dllm_edits apply(const HostCanvas& canvas, const dllm_stats& stats) {
    dllm_edits out{};
    out.struct_size = sizeof out;
    dllm_error error = no_error();
    const dllm_canvas view = canvas.view();
    check(table_.apply(run_, &view, &stats, &out, &error), error);
    return out;
  }

 private:
  const dllm_sampler_v1& table_;
  dllm_sampler_run* run_ = nullptr;
};

/// What the backend would answer; arrays that the plan did not want stay out of view().
struct HostStats {
  std::vector<std::uint32_t> positions;
  std::uint32_t want = 0;
  std::vector<std::int32_t> sampled, argmax;
  std::vector<float> sampled_prob, top1, top2, entropy;

  dllm_stats view() const {
    dllm_stats stats{};
    stats.struct_size = sizeof stats;
    stats.n_rows = static_cast<std::uint32_t>(positions.size());
    stats.positions = positions.data();
    if ((want & DLLM_STAT_SAMPLED) != 0) {
      stats.sampled = sampled.data();
      stats.sampled_prob = sampled_prob.data();
    }
    if ((want & DLLM_STAT_ARGMAX) != 0) stats.argmax = argmax.data();
    if ((want & DLLM_STAT_TOP2) != 0) {
      stats.top1_prob = top1.data();
      stats.top2_prob = top2.data();
    }
    if ((want & DLLM_STAT_ENTROPY) != 0) stats.entropy = entropy.data();
    return stats;
  }
};

/// `logits_of(position)` gives the row after guidance, in double.
template <typename LogitsOf>
HostStats answer(const dllm_plan& plan, const dllm_model_facts& facts, std::uint64_t seed,
                 std::uint32_t step, LogitsOf&& logits_of) {
  StatsRequest request;
  request.domain = plan.domain == DLLM_DOMAIN_FILTERED ? Domain::filtered : Domain::raw;
  request.temperature = plan.temperature;
  request.top_p = plan.top_p;
  request.top_k = plan.top_k;
  request.suppress_both = {plan.suppress_both, plan.n_suppress_both};
  request.suppress_confidence = {plan.suppress_confidence, plan.n_suppress_confidence};
  request.allow_all = (plan.flags & DLLM_PLAN_ALLOW_ALL) != 0;
  request.mask_id = facts.mask_id;
  request.n_tokens = facts.n_tokens;
  request.seed = seed;
  request.step = step;

  HostStats stats;
  stats.want = plan.want;
  for (const std::uint32_t position : std::span(plan.positions, plan.n_positions)) {
    const RowStats row = oracle_row_stats(logits_of(position), request, position);
    if (row.non_finite) throw std::runtime_error("the test's logits are not finite");
    stats.positions.push_back(position);
    stats.sampled.push_back(row.sampled);
    stats.argmax.push_back(row.argmax);
    stats.sampled_prob.push_back(static_cast<float>(row.sampled_prob));
    stats.top1.push_back(static_cast<float>(row.top1_prob));
    stats.top2.push_back(static_cast<float>(row.top2_prob));
    stats.entropy.push_back(static_cast<float>(row.entropy));
  }
  return stats;
}

/// As the engine checks and writes edits, of a sampler that only commits. Throws std::runtime_error
/// for one that is not allowed.
inline void write_edits(HostCanvas& canvas, const dllm_edits& edits, std::uint32_t token_limit) {
  for (const dllm_edit& edit : std::span(edits.edits, edits.n_edits)) {
    if (edit.kind != DLLM_EDIT_COMMIT) throw std::runtime_error("an edit that is no commit");
    canvas.write(edit, token_limit);
  }
  ++canvas.step;
}

}  // namespace dllm::test
