// What this runtime offers a plugin: the dllm_host_v1 table over a Log.
#pragma once

#include <memory>

#include "dllm/log.hpp"
#include "dllm_sdk/plugin_abi.h"

namespace dllm {

/// A host table for one registry. Plugins may keep the table until the process ends, so it outlives
/// this object; after that its log calls go nowhere.
class HostTable {
 public:
  explicit HostTable(const Log& log);
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;
  ~HostTable();

  const dllm_host_v1* get() const noexcept;

 private:
  struct Shared;
  Shared* shared_;
};

}  // namespace dllm
