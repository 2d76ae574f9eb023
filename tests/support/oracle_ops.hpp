// Every backend operation in double precision, written to be obviously right: what backends and
// models are held to. (head_stats: head_stats_oracle.hpp.)
//
//   Rows y = oracle_linear(weights, oracle_norm(x, norm, eps), bias);
//
// Rows is a list of rows of doubles; weights are [output][input].
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "dllm/backend.hpp"

namespace dllm::test {

using Rows = std::vector<std::vector<double>>;

/// x_j w_j / sqrt(mean(x^2) + eps).
inline std::vector<double> oracle_norm_row(std::span<const double> x,
                                           std::span<const double> weight, double eps) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double root = std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> out(x.size());
  for (std::size_t j = 0; j < x.size(); ++j) out[j] = x[j] * weight[j] / root;
  return out;
}

inline Rows oracle_norm(const Rows& x, std::span<const double> weight, double eps) {
  Rows out;
  for (const auto& row : x) out.push_back(oracle_norm_row(row, weight, eps));
  return out;
}

/// out[r][o] = sum_i W[o][i] x[r][i] (+ bias[o]).
inline Rows oracle_linear(const Rows& weights, const Rows& x, std::span<const double> bias = {}) {
  Rows out(x.size(), std::vector<double>(weights.size()));
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t o = 0; o < weights.size(); ++o) {
      double sum = bias.empty() ? 0.0 : bias[o];
      for (std::size_t i = 0; i < weights[o].size(); ++i) sum += weights[o][i] * x[r][i];
      out[r][o] = sum;
    }
  }
  return out;
}

/// The same sums over absolute values: what rounding errors are relative to.
inline Rows oracle_linear_magnitude(const Rows& weights, const Rows& x) {
  Rows absolute_weights = weights;
  Rows absolute_x = x;
  for (auto& row : absolute_weights)
    for (double& value : row) value = std::abs(value);
  for (auto& row : absolute_x)
    for (double& value : row) value = std::abs(value);
  return oracle_linear(absolute_weights, absolute_x);
}

inline double oracle_silu(double x) { return x / (1.0 + std::exp(-x)); }

/// silu(gate(h)) * up(h).
inline Rows oracle_gated(const Rows& gate, const Rows& up, const Rows& h) {
  Rows out = oracle_linear(gate, h);
  const Rows u = oracle_linear(up, h);
  for (std::size_t r = 0; r < out.size(); ++r)
    for (std::size_t j = 0; j < out[r].size(); ++j) out[r][j] = oracle_silu(out[r][j]) * u[r][j];
  return out;
}

/// Rotates each head's leading n_rot values; head_norm (may be empty) is applied first.
inline Rows oracle_rope(Rows x, std::span<const std::int32_t> positions, const RopeParams& params,
                        std::span<const double> head_norm) {
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::uint32_t h = 0; h < params.n_heads; ++h) {
      const std::span<double> head(x[r].data() + std::size_t{h} * params.head_dim, params.head_dim);
      if (!head_norm.empty()) {
        const std::vector<double> normed =
            oracle_norm_row(head, head_norm, static_cast<double>(params.head_norm_eps));
        for (std::size_t d = 0; d < head.size(); ++d) head[d] = normed[d];
      }
      for (std::uint32_t m = 0; m < params.n_rot / 2; ++m) {
        const double angle =
            positions[r] * params.scale * std::pow(params.theta, -2.0 * m / params.n_rot);
        const std::size_t first = params.kind == RopeKind::norm ? 2 * m : m;
        const std::size_t second = params.kind == RopeKind::norm ? 2 * m + 1 : m + params.n_rot / 2;
        const double a = head[first];
        const double b = head[second];
        head[first] = a * std::cos(angle) - b * std::sin(angle);
        head[second] = a * std::sin(angle) + b * std::cos(angle);
      }
    }
  }
  return x;
}

/// softmax(scale q k^T) v per span and head; rows of no span stay 0.
inline Rows oracle_attention(const Rows& q, const Rows& k, const Rows& v,
                             std::span<const AttentionSpan> spans, const AttentionParams& params) {
  Rows out(q.size(), std::vector<double>(std::size_t{params.n_heads} * params.head_dim, 0.0));
  for (const AttentionSpan& span : spans) {
    for (std::uint32_t i = span.q_begin; i < span.q_begin + span.q_count; ++i) {
      for (std::uint32_t h = 0; h < params.n_heads; ++h) {
        const std::size_t q_col = std::size_t{h} * params.head_dim;
        const std::size_t kv_col =
            std::size_t{h * params.n_kv_heads / params.n_heads} * params.head_dim;
        std::vector<double> scores(span.kv_count);
        double peak = -std::numeric_limits<double>::infinity();
        for (std::uint32_t j = 0; j < span.kv_count; ++j) {
          double dot = 0;
          for (std::uint32_t d = 0; d < params.head_dim; ++d)
            dot += q[i][q_col + d] * k[span.kv_begin + j][kv_col + d];
          scores[j] = static_cast<double>(params.scale) * dot;
          peak = std::max(peak, scores[j]);
        }
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - peak);
        for (std::uint32_t j = 0; j < span.kv_count; ++j)
          for (std::uint32_t d = 0; d < params.head_dim; ++d)
            out[i][q_col + d] += scores[j] / sum * v[span.kv_begin + j][kv_col + d];
      }
    }
  }
  return out;
}

}  // namespace dllm::test
