// Whole logits of a step's rows, for the samplers in it that take them ("dllm.raw_logits/1").
//
//   logits.reserve(max_rows, n_vocab);        // when such a sampler comes, before its first step
//   logits.fetch(model, n_rows);              // after forward_stats
//   run.take_logits(canvas, logits.of(request, plan));
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "dllm/head_stats.hpp"
#include "dllm/model.hpp"
#include "dllm_sdk/raw_logits_abi.h"

namespace dllm {

class WholeLogits {
 public:
  /// Room for the rows of a step; fetch takes more where a step has more. Throws Error (resource)
  /// with the bytes where there is none.
  void reserve(std::uint32_t n_rows, std::uint32_t n_vocab);
  /// The rows of the forward that was just made, n_rows of them.
  void fetch(Model& model, std::uint32_t n_rows);
  /// Those `plan` asked for out of the rows of `request`, guidance applied; moves them within the
  /// request's own rows, so once for each fetch. Valid until the next fetch.
  dllm_raw_logits of(const StatsRequest& request, const dllm_plan& plan);

 private:
  float* row(std::size_t i) { return values_.data() + i * n_vocab_; }

  std::vector<float> values_;  // [n_rows, n_vocab]
  std::uint32_t n_vocab_ = 0;
};

}  // namespace dllm
