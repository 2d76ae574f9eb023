#include "engine/whole_logits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "dllm/error.hpp"

namespace dllm {

void Model::last_logits(std::span<float>) {
  throw Error(ErrorCode::unsupported, "this model gives statistics, no whole logits",
              info().architecture, "use a sampler that takes no raw logits");
}

void WholeLogits::reserve(std::uint32_t n_rows, std::uint32_t n_vocab) {
  n_vocab_ = n_vocab;
  const std::size_t count = std::size_t{n_rows} * n_vocab;
  try {
    if (values_.size() < count) values_.resize(count);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::resource,
                fmt::format("whole logits of {} rows take {} MiB, which are not to be had", n_rows,
                            (count * sizeof(float)) >> 20),
                "engine", "use a shorter canvas (-n), or a sampler that takes no raw logits");
  }
}

void WholeLogits::fetch(Model& model, std::uint32_t n_rows) {
  reserve(n_rows, n_vocab_);
  model.last_logits(std::span(values_).first(std::size_t{n_rows} * n_vocab_));
}

dllm_raw_logits WholeLogits::of(const StatsRequest& request, const dllm_plan& plan) {
  // Rows of a plan ascend, as those of the request do: none is overwritten before it is moved.
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < plan.n_positions; ++i) {
    while (request.positions[at] != plan.positions[i]) ++at;
    float* const to = row(request.first_row + i);
    const float* const from = row(request.first_row + at);
    if (to != from) std::copy_n(from, n_vocab_, to);
    if (!request.guided) continue;
    // l = u + (scale + 1)(c - u), as head_stats.hpp defines it.
    const float* const pair = row(request.guidance_first_row + at);
    for (std::uint32_t id = 0; id < n_vocab_; ++id) {
      to[id] = pair[id] + (request.guidance_scale + 1) * (to[id] - pair[id]);
    }
  }
  dllm_raw_logits out{};
  out.struct_size = sizeof out;
  out.n_rows = plan.n_positions;
  out.n_vocab = n_vocab_;
  out.positions = plan.positions;
  out.values = row(request.first_row);
  return out;
}

}  // namespace dllm
