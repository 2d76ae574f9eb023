#include "dllm/sampler.hpp"

#include <fmt/format.h>

#include <utility>

#include "dllm/error.hpp"
#include "plugin/foreign_text.hpp"
#include "plugin/raw_logits.hpp"

namespace dllm {
namespace {

std::string owner_text(std::string_view id) { return fmt::format("sampler {}", id); }

// The values in the order of the plugin's own infos; they borrow `values`.
std::vector<dllm_option_value> ordered_values(const std::vector<OptionInfo>& infos,
                                              const OptionValues& values, std::string_view owner) {
  std::vector<dllm_option_value> out;
  out.reserve(infos.size());
  for (const OptionInfo& info : infos) {
    const auto value = values.find(info.name);
    if (value == values.end()) {
      throw Error(ErrorCode::internal, fmt::format("option {} has no value", info.name),
                  std::string(owner), "pass the values through check_options");
    }
    out.push_back({value->first.c_str(), value->second.text.c_str(), value->second.integer,
                   value->second.number});
  }
  return out;
}

void check_list(const void* list, std::uint32_t count, const char* call, const char* what,
                std::string_view owner) {
  if (count > 0 && list == nullptr) {
    throw contract_error(fmt::format("{}() named {} {} and gave no list", call, count, what),
                         owner);
  }
}

}  // namespace

SamplerRun::SamplerRun(const dllm_sampler_v1* table, const dllm_raw_logits_v1* raw_logits,
                       dllm_sampler_run* run, std::string name)
    : table_(table), raw_logits_(raw_logits), run_(run), name_(std::move(name)) {}

SamplerRun::SamplerRun(SamplerRun&& other) noexcept
    : table_(other.table_),
      raw_logits_(other.raw_logits_),
      run_(std::exchange(other.run_, nullptr)),
      name_(std::move(other.name_)) {}

SamplerRun& SamplerRun::operator=(SamplerRun&& other) noexcept {
  // The old run is ended by `other`, when it goes.
  std::swap(table_, other.table_);
  std::swap(raw_logits_, other.raw_logits_);
  std::swap(run_, other.run_);
  std::swap(name_, other.name_);
  return *this;
}

SamplerRun::~SamplerRun() {
  if (run_ != nullptr) end_quietly([this] { table_->end(run_); });
}

dllm_plan SamplerRun::plan(const dllm_canvas& canvas) {
  dllm_canvas shown = canvas;
  shown.struct_size = sizeof shown;
  dllm_plan out{};
  out.struct_size = sizeof out;
  out.top_p = 1;
  out.window_end = canvas.n_positions;
  ErrorBuffer error;
  const dllm_status status =
      guarded(name_, "plan", [&] { return table_->plan(run_, &shown, &out, error.get()); });
  if (status != DLLM_OK) throw plugin_error(status, error, name_, "plan");
  check_list(out.positions, out.n_positions, "plan", "positions", name_);
  check_list(out.suppress_both, out.n_suppress_both, "plan", "ids to suppress", name_);
  check_list(out.suppress_confidence, out.n_suppress_confidence, "plan",
             "ids to suppress in the confidence", name_);
  check_list(out.prob_of, out.n_prob_of, "plan", "ids to give the probability of", name_);
  return out;
}

void SamplerRun::take_logits(const dllm_canvas& canvas, const dllm_raw_logits& logits) {
  DLLM_ASSERT(raw_logits_ != nullptr);
  dllm_canvas shown = canvas;
  shown.struct_size = sizeof shown;
  dllm_raw_logits told = logits;
  told.struct_size = sizeof told;
  ErrorBuffer error;
  const dllm_status status =
      guarded(name_, "take", [&] { return raw_logits_->take(run_, &shown, &told, error.get()); });
  if (status != DLLM_OK) throw plugin_error(status, error, name_, "take");
}

dllm_edits SamplerRun::apply(const dllm_canvas& canvas, const dllm_stats& stats) {
  dllm_canvas shown = canvas;
  shown.struct_size = sizeof shown;
  dllm_stats told = stats;
  told.struct_size = sizeof told;
  dllm_edits out{};
  out.struct_size = sizeof out;
  ErrorBuffer error;
  const dllm_status status = guarded(
      name_, "apply", [&] { return table_->apply(run_, &shown, &told, &out, error.get()); });
  if (status != DLLM_OK) throw plugin_error(status, error, name_, "apply");
  check_list(out.edits, out.n_edits, "apply", "edits", name_);
  if (out.n_edits > canvas.n_positions) {
    throw contract_error(fmt::format("apply() named {} edits, the canvas has {} positions",
                                     out.n_edits, canvas.n_positions),
                         name_);
  }
  if (out.status != DLLM_RUN_RUNNING && out.status != DLLM_RUN_FINISHED) {
    throw contract_error(
        fmt::format("apply() set run status {}, allowed are 0 (running) and 1 (finished)",
                    out.status),
        name_);
  }
  return out;
}

Sampler::Sampler(std::shared_ptr<void> library, std::string id, const dllm_sampler_v1* table,
                 const std::vector<OptionInfo>& infos, OptionValues values,
                 const dllm_model_facts& facts)
    : library_(std::move(library)), id_(std::move(id)), table_(table), values_(std::move(values)) {
  const std::string owner = owner_text(id_);
  std::string malformed;
  raw_logits_ =
      guarded(owner, "get_extension", [&] { return find_raw_logits(*table_, malformed); });
  if (!malformed.empty()) throw contract_error("its table for raw logits: " + malformed, owner);
  const std::vector<dllm_option_value> ordered = ordered_values(infos, values_, owner);
  dllm_model_facts told = facts;
  told.struct_size = sizeof told;
  ErrorBuffer error;
  const dllm_status status = guarded(owner, "create", [&] {
    return table_->create(ordered.data(), static_cast<std::uint32_t>(ordered.size()), &told,
                          &sampler_, error.get());
  });
  if (status != DLLM_OK) throw plugin_error(status, error, owner, "create");
  if (sampler_ == nullptr) {
    throw contract_error("create() reported success and gave no sampler", owner);
  }
}

Sampler::~Sampler() {
  end_quietly([this] { table_->destroy(sampler_); });
}

SamplerRun Sampler::start(const dllm_canvas& canvas, std::uint64_t seed) const {
  const std::string owner = owner_text(id_);
  dllm_canvas shown = canvas;
  shown.struct_size = sizeof shown;
  dllm_sampler_run* run = nullptr;
  ErrorBuffer error;
  const dllm_status status = guarded(
      owner, "start", [&] { return table_->start(sampler_, &shown, seed, &run, error.get()); });
  if (status != DLLM_OK) throw plugin_error(status, error, owner, "start");
  if (run == nullptr) throw contract_error("start() reported success and gave no run", owner);
  return {table_, raw_logits_, run, owner};
}

}  // namespace dllm
