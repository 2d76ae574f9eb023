// Row statistics on the device. Definitions of every figure: dllm/head_stats.hpp.
//
// Rows without filters and lists are streamed: one walk, a tile at a time (head_stream.cu). The
// others need the row as a whole and are walked several times (head_whole.cu).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace dllm::cuda {

/// A range of the id list that travels with a call.
struct IdRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// A StatsRequest as kernels see it.
struct DeviceRequest {
  std::uint32_t want = 0;
  std::uint32_t n_tokens = 0;
  std::uint32_t top_k = 0;
  std::uint32_t top_list = 0;
  std::int32_t mask_id = -1;
  std::uint32_t step = 0;
  std::uint64_t seed = 0;
  float temperature = 0;
  float inverse_temperature = 1;  // of the distribution confidence is taken from
  float top_p = 1;
  float guidance_scale = 0;
  bool filtered_domain = false;
  bool filters = false;  // top_p or top_k matter to some figure
  bool whole = false;    // filters, or a list of the most probable ids
  bool draws = false;    // temperature is above 0 and a draw is wanted
  bool allow_all = false;
  bool guided = false;
  IdRange suppress_both;
  IdRange suppress_confidence;
  IdRange prob_of;
};

/// One row to answer.
struct DeviceRow {
  std::uint32_t request = 0;
  std::uint32_t logits_row = 0;
  std::uint32_t pair_row = 0;  // where guided
  std::uint32_t position = 0;
};

struct RowAnswer {
  std::int32_t sampled = 0;
  float sampled_prob = 0;
  std::int32_t argmax = 0;
  float top1_prob = 0;
  float top2_prob = 0;
  float entropy = 0;
  float log_sum_exp = 0;
  std::uint32_t non_finite = 0;
};

struct TilePartial;  // head_figures.cuh

/// Device pointers of one call; answers are indexed by place in `rows`.
struct HeadCall {
  const DeviceRow* rows = nullptr;
  const DeviceRequest* requests = nullptr;
  const std::int32_t* ids = nullptr;
  float* logits = nullptr;  // [., n_vocab]; those of whole rows are overwritten
  std::uint32_t n_vocab = 0;
  TilePartial* partials = nullptr;  // head_partial_bytes() a row
  RowAnswer* answers = nullptr;
  float* prob_of = nullptr;  // [row][prob_of_stride]
  std::uint32_t prob_of_stride = 0;
  std::int32_t* top_ids = nullptr;  // [row][top_stride]
  float* top_probs = nullptr;
  std::uint32_t top_stride = 0;
};

/// Of a row's partial statistics.
std::uint64_t head_partial_bytes(std::uint32_t n_vocab);

/// What there is among the rows of a call.
struct RowKinds {
  bool greedy = false;  // streamed, no draw
  bool drawn = false;   // streamed
  bool whole = false;
};

/// Answer the rows that are streamed, and those that are not; each leaves the others alone.
void launch_streamed_rows(const HeadCall& call, std::uint32_t n_rows, RowKinds kinds,
                          cudaStream_t stream);
void launch_whole_rows(const HeadCall& call, std::uint32_t n_rows, cudaStream_t stream);

}  // namespace dllm::cuda
