// The host's side of a sampler plugin: RAII and checked calls over the C table.
//
//   Sampler sampler(library, "llada", table, values, facts);
//   SamplerRun run = sampler.start(canvas, seed);
//   dllm_plan plan = run.plan(canvas);
//
// Failures of the plugin come out as Error (bad_plugin), or (bad_usage) for DLLM_BAD_OPTION, naming
// the sampler. Whether a plan or an edit is allowed is the Engine's check.
// Thread rule: Sampler is immutable, any thread; SamplerRun one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/options.hpp"
#include "dllm_sdk/raw_logits_abi.h"
#include "dllm_sdk/sampler_abi.h"

namespace dllm {

/// One sequence's state inside a sampler plugin; move-only. It ends before its Sampler does.
class SamplerRun {
 public:
  SamplerRun(const dllm_sampler_v1* table, const dllm_raw_logits_v1* raw_logits,
             dllm_sampler_run* run, std::string name);
  SamplerRun(SamplerRun&& other) noexcept;
  SamplerRun& operator=(SamplerRun&& other) noexcept;
  ~SamplerRun();

  /// Pointers in the plan live until the next call on this run.
  dllm_plan plan(const dllm_canvas& canvas);
  /// Only where Sampler::takes_logits(); before apply.
  void take_logits(const dllm_canvas& canvas, const dllm_raw_logits& logits);
  dllm_edits apply(const dllm_canvas& canvas, const dllm_stats& stats);

 private:
  const dllm_sampler_v1* table_;
  const dllm_raw_logits_v1* raw_logits_;
  dllm_sampler_run* run_;
  std::string name_;
};

/// A configured decoding rule, shared by any number of runs.
class Sampler {
 public:
  /// `library` keeps the plugin loaded. `values` are complete and checked (check_options).
  Sampler(std::shared_ptr<void> library, std::string id, const dllm_sampler_v1* table,
          const std::vector<OptionInfo>& infos, OptionValues values, const dllm_model_facts& facts);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  const std::string& id() const noexcept { return id_; }
  const OptionValues& values() const noexcept { return values_; }
  /// It wants the whole logits of every row it asks for ("dllm.raw_logits/1").
  bool takes_logits() const noexcept { return raw_logits_ != nullptr; }
  SamplerRun start(const dllm_canvas& canvas, std::uint64_t seed) const;

 private:
  std::shared_ptr<void> library_;
  std::string id_;
  const dllm_sampler_v1* table_;
  const dllm_raw_logits_v1* raw_logits_ = nullptr;
  OptionValues values_;
  dllm_sampler* sampler_ = nullptr;
};

}  // namespace dllm
