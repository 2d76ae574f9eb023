// The engine's distrust of plans: everything a sampler asks for is in range before a model sees it.
//
//   check_plan(run.plan(canvas.view()), canvas.view(), model.info().n_vocab, sampler.id());
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "dllm_sdk/sampler_abi.h"

namespace dllm {

/// Throws Error (bad_plugin) naming the sampler and the field at fault, or (unsupported) for what
/// the interface reserves.
void check_plan(const dllm_plan& plan, const dllm_canvas& canvas, std::uint32_t n_vocab,
                const std::string& sampler);

}  // namespace dllm
