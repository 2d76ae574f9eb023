#include "attention_case.hpp"

#include <algorithm>
#include <cmath>

namespace dllm::test {
namespace {

// x with 11 significant bits, as far down as 2^-14 of 2^exponent, in steps of 2^-24 of it below.
double half_of(double x, int exponent) {
  if (x == 0) return 0;
  const int of_x = std::max(std::ilogb(x), exponent - 14);
  return std::ldexp(std::nearbyint(std::ldexp(x, 10 - of_x)), of_x - 10);
}

// x with 8 significant bits.
double brain_of(double x) {
  if (x == 0) return 0;
  const int exponent = std::ilogb(x);
  return std::ldexp(std::nearbyint(std::ldexp(x, 7 - exponent)), exponent - 7);
}

}  // namespace

std::vector<AttentionSpan> pack(const std::vector<std::uint32_t>& lengths) {
  std::vector<AttentionSpan> spans;
  std::uint32_t begin = 0;
  for (const std::uint32_t length : lengths) {
    spans.push_back({begin, length, begin, length, MaskKind::full});
    begin += length;
  }
  return spans;
}

std::vector<float> run_attention(const Subject& subject, Backend& backend, const AttentionCase& c,
                                 const std::vector<AttentionSpan>& list,
                                 const std::vector<float>& q, const std::vector<float>& k,
                                 const std::vector<float>& v, float scale) {
  const std::uint32_t width = c.n_heads * c.head_dim;
  const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
  const auto n = static_cast<std::uint32_t>(q.size() / width);
  const auto n_keys = static_cast<std::uint32_t>(k.size() / kv_width);
  const auto q_buffer = make_filled(backend, q, width);
  const auto k_buffer = make_filled(backend, k, kv_width);
  const auto v_buffer = make_filled(backend, v, kv_width);
  const auto out = backend.make_buffer(n, width);
  const auto spans = backend.make_attention_spans(static_cast<std::uint32_t>(list.size()));
  spans->write(list);
  backend.attention(q_buffer->rows(n), k_buffer->rows(n_keys), v_buffer->rows(n_keys), *spans,
                    {c.n_heads, c.n_kv_heads, c.head_dim, scale}, out->rows(n));
  return subject.read(backend, out->rows(n));
}

Rows half_rounded(Rows rows, std::uint32_t head_dim) {
  for (auto& row : rows)
    for (std::size_t begin = 0; begin < row.size(); begin += head_dim) {
      double largest = 0;
      for (std::size_t d = begin; d < begin + head_dim; ++d)
        largest = std::max(largest, std::abs(row[d]));
      for (std::size_t d = begin; d < begin + head_dim; ++d)
        row[d] = half_of(row[d], largest == 0 ? 0 : std::ilogb(largest));
    }
  return rows;
}

Rows absolute(Rows rows) {
  for (auto& row : rows)
    for (double& value : row) value = std::abs(value);
  return rows;
}

// A score is a sum of head_dim products of size 3 * 3 / 3 (root mean square), each off by less than
// `rounding`: four times its deviation, in the exponent, for a weight and for their sum.
Rows rounded_tolerance(const Rows& of_size, const AttentionParams& params, double rounding) {
  const double deviation =
      static_cast<double>(params.scale) * 3 * std::sqrt(params.head_dim) * rounding;
  return scaled(of_size, std::expm1(2 * 4 * deviation) + 2 * rounding, 1e-6);
}

namespace {

// What a query sees of one head.
struct Head {
  const Operands& x;
  const AttentionSpan& span;
  std::size_t q_begin, kv_begin, dim;
};

// A key's weight relative to the largest, and by how much it may be larger or smaller.
struct Weighed {
  double weight;
  double doubt;
};
// A score's f32 sum is off by sqrt(dim) roundings of its terms; the power of 2 is a cubic.
std::vector<Weighed> weigh(const Head& head, std::size_t row, float factor) {
  std::vector<double> scores, doubts;
  for (std::uint32_t key = 0; key < head.span.kv_count; ++key) {
    double score = 0;
    double size = 0;
    for (std::size_t d = 0; d < head.dim; ++d) {
      const auto q = static_cast<float>(head.x.q[row][head.q_begin + d]);
      const double product = brain_of(static_cast<double>(q * factor)) *
                             brain_of(head.x.k[head.span.kv_begin + key][head.kv_begin + d]);
      score += product;
      size += std::abs(product);
    }
    scores.push_back(score);
    doubts.push_back((std::sqrt(head.dim) * size + 150) * 0x1p-24);
  }
  const double largest = std::nearbyint(*std::ranges::max_element(scores));
  std::vector<Weighed> all;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double power = std::exp2(scores[i] - largest);
    const double doubt = std::expm1(doubts[i]) + 8e-5;
    all.push_back({brain_of(power), brain_of(power * (1 + doubt)) - brain_of(power * (1 - doubt))});
  }
  return all;
}

}  // namespace

BrainAttention brain_attention(const Operands& x, const std::vector<AttentionSpan>& spans,
                               const AttentionParams& params) {
  const std::size_t dim = params.head_dim;
  BrainAttention result = {Rows(x.q.size(), std::vector<double>(x.q[0].size())), {}};
  result.tolerance = result.want;
  for (const AttentionSpan& span : spans)
    for (std::size_t row = span.q_begin; row < span.q_begin + span.q_count; ++row)
      for (std::size_t h = 0; h < params.n_heads; ++h) {
        const Head head = {x, span, h * dim, h * params.n_kv_heads / params.n_heads * dim, dim};
        const std::vector<Weighed> weights = weigh(head, row, params.scale * 1.44269504F);
        double sum = 0;
        for (const Weighed& each : weights) sum += each.weight;
        for (std::size_t d = 0; d < dim; ++d) {
          const auto value = [&](std::size_t key) {
            return brain_of(x.v[span.kv_begin + key][head.kv_begin + d]);
          };
          double average = 0;
          double size = 0;
          double doubt = 0;
          for (std::size_t key = 0; key < weights.size(); ++key) {
            average += weights[key].weight * value(key) / sum;
            size += weights[key].weight * std::abs(value(key)) / sum;
          }
          for (std::size_t key = 0; key < weights.size(); ++key)
            doubt += weights[key].doubt * std::abs(value(key) - average) / sum;
          result.want[row][h * dim + d] = average;
          result.tolerance[row][h * dim + d] =
              1.05 * doubt + static_cast<double>(span.kv_count + 8) * 0x1p-24 * size + 1e-30;
        }
      }
  return result;
}

void expect_as_brains(const std::vector<float>& got, const Operands& x,
                      const std::vector<AttentionSpan>& spans, const AttentionParams& params) {
  const BrainAttention rounded = brain_attention(x, spans, params);
  expect_near(got, rounded.want, rounded.tolerance);
  expect_near(got, oracle_attention(x.q, x.k, x.v, spans, params),
              rounded_tolerance(oracle_attention(x.q, x.k, absolute(x.v), spans, params), params,
                                kBrainRounding));
}

Rows scaled(Rows rows, double factor, double more) {
  for (auto& row : rows)
    for (double& value : row) value = value * factor + more;
  return rows;
}

}  // namespace dllm::test
