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

// A product is off by at most 2^-15 of itself, 2^-17.4 in root mean square: each operand's rest is
// uniform in 2^-17 of a binade, and the product of the low parts is left out (brain_parts.inl). A
// score sums head_dim products of size 3 (root mean square): four times its deviation, in the
// exponent, for a weight and for their sum. Weights times values once more.
Rows split_tolerance(const Rows& of_size, const AttentionParams& params) {
  const double rounding = std::ldexp(1.0, -17);
  const double deviation =
      static_cast<double>(params.scale) * 3 * std::sqrt(params.head_dim) * rounding;
  return scaled(of_size, std::expm1(2 * 4 * deviation) + 4 * rounding, 2e-6);
}

Rows scaled(Rows rows, double factor, double more) {
  for (auto& row : rows)
    for (double& value : row) value = value * factor + more;
  return rows;
}

}  // namespace dllm::test
