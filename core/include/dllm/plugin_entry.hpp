// How a backend or model plugin (C++ tier) declares itself: the note with this build's exact tag
// and the entry that hands out its factory.
//
//   DLLM_BACKEND_PLUGIN("cpu", "1.0.0", "CPU backend", CpuBackendFactory)
//
// Thread rule: the factory is made once, whoever calls the entry first.
#pragma once

#include "dllm/build_tag.h"
#include "dllm/version.h"
#include "dllm_sdk/plugin_abi.h"

#define DLLM_CORE_PLUGIN(kind_, id_, version_, summary_, Base, Factory)                           \
  DLLM_PLUGIN_NOTE(kind_, id_, version_, DLLM_BUILD_TAG, summary_);                               \
  extern "C" DLLM_PLUGIN_EXPORT const void* dllm_plugin_entry(const dllm_host_v1*, dllm_error*) { \
    static const Factory factory;                                                                 \
    return static_cast<const void*>(static_cast<const Base*>(&factory));                          \
  }

#define DLLM_BACKEND_PLUGIN(id_, version_, summary_, Factory)                                 \
  DLLM_CORE_PLUGIN(DLLM_PLUGIN_KIND_BACKEND, id_, version_, summary_, ::dllm::BackendFactory, \
                   Factory)
#define DLLM_MODEL_PLUGIN(id_, version_, summary_, Factory) \
  DLLM_CORE_PLUGIN(DLLM_PLUGIN_KIND_MODEL, id_, version_, summary_, ::dllm::ModelFactory, Factory)
