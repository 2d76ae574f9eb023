// Our two sampler plugins inside a fuzz target: their sources are compiled into it with entries of
// different names (CMakeLists.txt), so that the fuzzer sees their branches. Called through the C
// table, as any plugin is.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dllm/options.hpp"
#include "dllm/sampler.hpp"
#include "dllm_sdk/sampler_abi.h"
#include "plugin_host.hpp"

extern "C" const void* dllm_plugin_entry_llada(const dllm_host_v1* host, dllm_error* error);
extern "C" const void* dllm_plugin_entry_dream(const dllm_host_v1* host, dllm_error* error);

namespace dllm::test {

struct LinkedSampler {
  std::string id;
  const dllm_sampler_v1* table = nullptr;
  std::vector<OptionInfo> infos;

  /// Throws what check_options() and the plugin refuse.
  std::shared_ptr<const Sampler> make(const std::map<std::string, std::string, std::less<>>& given,
                                      const dllm_model_facts& facts) const {
    return std::make_shared<Sampler>(nullptr, id, table, infos,
                                     check_options(infos, given, "sampler " + id), facts);
  }
};

inline LinkedSampler linked(std::string id, dllm_plugin_entry_fn entry) {
  static constexpr dllm_host_v1 kHost{sizeof(dllm_host_v1),
                                      DLLM_PLUGIN_ABI_MAJOR,
                                      DLLM_PLUGIN_ABI_MINOR,
                                      nullptr,
                                      [](void*, std::int32_t, const char*, const char*) {},
                                      [](void*, const char*) -> const void* { return nullptr; }};
  dllm_error error = no_error();
  LinkedSampler out{std::move(id), static_cast<const dllm_sampler_v1*>(entry(&kHost, &error)), {}};
  if (out.table == nullptr) throw std::runtime_error(error.message);
  out.infos = option_infos(*out.table);
  return out;
}

/// LLaDA's rule, then Dream's.
inline const std::vector<LinkedSampler>& linked_samplers() {
  static const std::vector<LinkedSampler> samplers{linked("llada", dllm_plugin_entry_llada),
                                                   linked("dream", dllm_plugin_entry_dream)};
  return samplers;
}

}  // namespace dllm::test
