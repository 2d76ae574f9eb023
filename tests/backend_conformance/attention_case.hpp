// Attention as the tests of every backend call it, and what binary16 operands are.
#pragma once

#include <vector>

#include "conformance.hpp"
#include "subjects.hpp"

namespace dllm::test {

struct AttentionCase {
  std::uint32_t n_heads;
  std::uint32_t n_kv_heads;
  std::uint32_t head_dim;
  std::vector<std::uint32_t> lengths;
};

/// Sequences of these lengths, one after the other, each attending to itself.
std::vector<AttentionSpan> pack(const std::vector<std::uint32_t>& lengths);

/// q [n, heads x dim], k and v [keys, kv heads x dim]; the result as q.
std::vector<float> run_attention(const Subject& subject, Backend& backend, const AttentionCase& c,
                                 const std::vector<AttentionSpan>& list,
                                 const std::vector<float>& q, const std::vector<float>& k,
                                 const std::vector<float>& v, float scale);

constexpr double kHalfRounding = 1.0 / 2048;  // 2^-11, relative
constexpr double kBrainRounding = 1.0 / 256;  // 2^-8
/// Every head's row in binary16, its largest value in [1, 2) times a power of two.
Rows half_rounded(Rows rows, std::uint32_t head_dim);
Rows absolute(Rows rows);
/// What operands that are off by `rounding` of themselves may cause: of_size is attention of |v|,
/// each q and k uniform in [-3, 3].
Rows rounded_tolerance(const Rows& of_size, const AttentionParams& params, double rounding);

struct Operands {
  Rows q, k, v;
};
/// Attention whose operands are BF16: q times scale and log2 e (in f32), k, v and the weights
/// 2^score, which are summed as rounded. In float64 but for that.
struct BrainAttention {
  Rows want;
  Rows tolerance;  ///< f32 sums, and weights so near to a tie that those decide their rounding
};
BrainAttention brain_attention(const Operands& x, const std::vector<AttentionSpan>& spans,
                               const AttentionParams& params);
/// Holds `got` to that, and to rounded_tolerance() of the operands themselves.
void expect_as_brains(const std::vector<float>& got, const Operands& x,
                      const std::vector<AttentionSpan>& spans, const AttentionParams& params);
/// value * factor + more.
Rows scaled(Rows rows, double factor, double more);

}  // namespace dllm::test
