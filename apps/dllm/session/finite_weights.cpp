#include "session/finite_weights.hpp"

#include <algorithm>
#include <cmath>

#include "dllm/error.hpp"
#include "dllm/quant.hpp"

namespace dllm::cli {

void require_finite_weights(const GgufFile& file) {
  for (const TensorInfo& tensor : file.tensors()) {
    if (can_decode(tensor.dtype)) file.require_finite(tensor);
  }
}

void require_finite_logits(std::span<const float> logits, const GgufFile& file) {
  if (std::ranges::all_of(logits, [](float value) { return std::isfinite(value); })) return;
  require_finite_weights(file);
  throw Error(ErrorCode::bad_file, "the logits are not finite, though every weight is",
              file.path().string(), "convert the model again from its original weights");
}

}  // namespace dllm::cli
