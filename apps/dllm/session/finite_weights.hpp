// Which weight made the logits NaN or infinite: looked for only once they are.
#pragma once

#include <span>

#include "dllm/gguf.hpp"

namespace dllm::cli {

/// Throws Error (bad_file) naming the first weight that is not finite. Reads the whole file, so it
/// is no part of loading: a run calls it when its logits are not finite.
void require_finite_weights(const GgufFile& file);

/// The same when a value of `logits` is not finite; when all weights are, an Error that says that
/// the model overflows.
void require_finite_logits(std::span<const float> logits, const GgufFile& file);

}  // namespace dllm::cli
