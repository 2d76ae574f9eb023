// Dream's schedule: times t[0] = 1 down to t[S] = eps, and the share of masked positions to fill
// between two of them. In float32, operation by operation as PyTorch computes it, since the counts
// are truncated and one rounding can move a token to another step.
#pragma once

#include <cstdint>

namespace dream {

/// torch.linspace(1, eps, n_steps + 1)[index]: from the first end up to the middle, from the last
/// end behind it (ATen RangeFactories, scalar form).
inline float time_at(std::uint32_t index, std::uint32_t n_steps, float eps) {
  const float step = (eps - 1.0f) / static_cast<float>(n_steps);
  if (index < (n_steps + 1) / 2) return 1.0f + step * static_cast<float>(index);
  return eps - step * static_cast<float>(n_steps - index);
}

/// 1 - t[index + 1] / t[index]; 1 at the last step (Dream generation_utils.py, _sample).
inline float transfer_share(std::uint32_t index, std::uint32_t n_steps, float eps) {
  if (index + 1 >= n_steps) return 1.0f;
  return 1.0f - time_at(index + 1, n_steps, eps) / time_at(index, n_steps, eps);
}

/// int(masked * share): positions the ranking algorithms commit at step `index`; all at the last.
inline std::uint32_t transfer_count(std::uint32_t masked, std::uint32_t index,
                                    std::uint32_t n_steps, float eps) {
  return static_cast<std::uint32_t>(static_cast<float>(masked) *
                                    transfer_share(index, n_steps, eps));
}

}  // namespace dream
