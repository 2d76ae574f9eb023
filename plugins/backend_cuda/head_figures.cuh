// What both ways of answering a row share: draws, and figures of a distribution. Draws and figures
// are in double, as on the CPU.
#pragma once

#include "dllm/head_stats.hpp"
#define DLLM_SDK_FUNCTION __host__ __device__
#include "dllm_sdk/philox.h"
#include "head.hpp"

namespace dllm::cuda {

constexpr std::uint32_t kNoId = 0xFFFFFFFFu;

/// The larger value wins, then the lower id.
struct Best {
  double value;
  std::uint32_t id;
};
struct BetterDraw {
  __device__ Best operator()(Best a, Best b) const {
    return a.value > b.value || (a.value == b.value && a.id < b.id) ? a : b;
  }
};

__device__ inline double tempered(const DeviceRequest& request, float l) {
  return request.temperature > 0 ? static_cast<double>(l) / static_cast<double>(request.temperature)
                                 : static_cast<double>(l);
}

/// The random words of ids 4 block to 4 block + 3.
__device__ inline void draw_words(const DeviceRequest& request, const DeviceRow& row,
                                  std::uint32_t block, std::uint32_t words[4]) {
  dllm_philox4x32(request.seed, request.step, row.position, block, DLLM_DRAW_CANDIDATE, words);
}

/// z - ln(-ln u).
__device__ inline double noised(const DeviceRequest& request, float l, std::uint32_t word) {
  const double u = (word + 0.5) * (1.0 / 4294967296.0);
  return tempered(request, l) - log(-log(u));
}

/// The distribution D of a row.
struct Distribution {
  float top = -INFINITY;     // largest logit
  float second = -INFINITY;  // second largest
  double sum = 0;            // of exp(d), d = (l - top) / T
  double weighted = 0;       // of exp(d) d

  /// Adds another part of the row.
  __device__ void add(const Distribution& other, float inverse_temperature) {
    second = fmaxf(fminf(top, other.top), fmaxf(second, other.second));
    const float most = fmaxf(top, other.top);
    if (most == -INFINITY) return;
    Distribution moved = other;
    move_to(most, inverse_temperature);
    moved.move_to(most, inverse_temperature);
    sum += moved.sum;
    weighted += moved.weighted;
  }

  __device__ double probability(float l, float inverse_temperature) const {
    if (l == -INFINITY || !(sum > 0)) return 0;
    return exp((static_cast<double>(l) - static_cast<double>(top)) *
               static_cast<double>(inverse_temperature)) /
           sum;
  }

 private:
  __device__ void move_to(float most, float inverse_temperature) {
    if (sum > 0) {
      const double by = (static_cast<double>(top) - static_cast<double>(most)) *
                        static_cast<double>(inverse_temperature);
      const double factor = exp(by);
      weighted = factor == 0 ? 0 : factor * (weighted + by * sum);
      sum *= factor;
    }
    top = most;
  }
};

/// What one tile of a row says.
struct TilePartial {
  Distribution d;
  Best draw = {-INFINITY, kNoId};  // value: l where temperature is 0, else z + g
  float draw_logit = -INFINITY;
  float argmax_logit = -INFINITY;
  std::uint32_t argmax = kNoId;
  std::uint32_t bad = 0;  // NaN or +inf seen
};

__device__ inline bool is_listed(const HeadCall& call, IdRange range, std::uint32_t id) {
  for (std::uint32_t i = 0; i < range.count; ++i)
    if (static_cast<std::uint32_t>(call.ids[range.first + i]) == id) return true;
  return false;
}

/// Fills everything but argmax, sampled and non_finite. The log of the sum saturates where a tiny
/// temperature takes it out of f32.
__device__ inline void write_figures(const HeadCall& call, const DeviceRequest& request,
                                     const Distribution& d, std::uint32_t sampled,
                                     float sampled_logit, RowAnswer& answer) {
  constexpr double kMost = 3.4028234663852886e38;
  const float inverse = request.inverse_temperature;
  answer.sampled_prob = is_listed(call, request.suppress_confidence, sampled)
                            ? 0.0f
                            : static_cast<float>(d.probability(sampled_logit, inverse));
  answer.top1_prob = static_cast<float>(d.probability(d.top, inverse));
  answer.top2_prob = static_cast<float>(d.probability(d.second, inverse));
  answer.entropy = 0;
  answer.log_sum_exp = -INFINITY;
  if (!(d.sum > 0)) return;
  answer.entropy = static_cast<float>(fmax(0.0, log(d.sum) - d.weighted / d.sum));
  const double temperature = inverse == 1 ? 1.0 : static_cast<double>(request.temperature);
  const double value = static_cast<double>(d.top) / temperature + log(d.sum);
  answer.log_sum_exp = static_cast<float>(fmin(fmax(value, -kMost), kMost));
}

/// l = u + (w + 1)(c - u), rounded as the CPU rounds it.
__device__ inline float blended(const DeviceRequest& request, float l, float pair) {
  return __fadd_rn(pair, __fmul_rn(request.guidance_scale + 1.0f, l - pair));
}

}  // namespace dllm::cuda
