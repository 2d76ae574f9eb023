// head_stats and logits: the host's part. Rows are answered in pieces whose logits fit the logits
// buffer; consecutive requests share a piece, so that one product serves a whole batch.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cuda_backend.hpp"
#include "cuda_check.hpp"
#include "dllm/error.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint64_t kLogitsBytes = 256u << 20;

void write_answer(const StatsRequest& request, const RowAnswer& answer, std::uint32_t row,
                  HeadStats& stats) {
  stats.non_finite[row] = static_cast<std::uint8_t>(answer.non_finite);
  if ((request.want & kStatArgmax) != 0) stats.argmax[row] = answer.argmax;
  if ((request.want & kStatSampled) != 0) {
    stats.sampled[row] = answer.sampled;
    stats.sampled_prob[row] = answer.sampled_prob;
  }
  if ((request.want & kStatTop2) != 0) {
    stats.top1_prob[row] = answer.top1_prob;
    stats.top2_prob[row] = answer.top2_prob;
  }
  if ((request.want & kStatEntropy) != 0) stats.entropy[row] = answer.entropy;
  if ((request.want & kStatLogSumExp) != 0) stats.log_sum_exp[row] = answer.log_sum_exp;
}

// Rows of a piece where `room` fit: whole tiles of the product, if there is more than one piece.
std::uint32_t piece_rows(std::uint32_t room, std::uint32_t n_rows) {
  constexpr std::uint32_t kTile = 160;
  return n_rows <= room || room < kTile ? room : room / kTile * kTile;
}

}  // namespace

std::uint32_t CudaBackend::chunk_rows(std::uint32_t n_vocab) const {
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>(kLogitsBytes / (std::uint64_t{n_vocab} * sizeof(float)), 2));
}

Inputs CudaBackend::head_input(TensorView hidden, const Vector& norm, float eps,
                               const Matrix& output) {
  const EventTimer timer(profile_, Stage::head, "head_norm", stream_.get());
  const Product product[] = {{output.packed(), {}}};
  return inputs_for(product, summed_rows_of(hidden), norm.values(), eps);
}

// Logits of rows [first_row, first_row + n_rows) of the inputs to rows from to_row of logits_.
void CudaBackend::logits_to(const Matrix& output, const Inputs& inputs, std::uint32_t first_row,
                            std::uint32_t n_rows, std::uint32_t to_row) {
  float* to = logits_.as<float>() + std::uint64_t{to_row} * output.n_rows();
  EventTimer timer(profile_, Stage::head, "head", stream_.get());
  timer.add_work(2.0 * n_rows * output.n_rows() * output.n_cols(),
                 static_cast<double>(output.packed().read_bytes()));
  const Product product[] = {{output.packed(), {to, output.n_rows()}}};
  multiply(product, inputs.rows(first_row, n_rows), false);
}

// Requests and their ids, where the device reads them.
void CudaBackend::describe(std::span<const StatsRequest> requests, std::uint32_t n_vocab) {
  requests_.clear();
  ids_.clear();
  const auto list = [&](std::span<const std::int32_t> ids) {
    const IdRange range = {static_cast<std::uint32_t>(ids_.size()),
                           static_cast<std::uint32_t>(ids.size())};
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return range;
  };
  for (const StatsRequest& request : requests) {
    DeviceRequest to;
    to.want = request.want;
    to.n_tokens = request.n_tokens;
    to.top_k = request.top_k;
    to.top_list = (request.want & kStatTopList) != 0 ? request.top_list : 0;
    to.mask_id = request.mask_id;
    to.step = request.step;
    to.seed = request.seed;
    to.temperature = request.temperature;
    to.inverse_temperature = confidence_inverse_temperature(request);
    to.top_p = request.top_p;
    to.guidance_scale = request.guidance_scale;
    to.filtered_domain = request.domain == Domain::filtered;
    to.filters = filters_matter(request, n_vocab);
    to.whole = to.filters || to.top_list > 0;
    to.draws = request.temperature > 0 && (request.want & kStatSampled) != 0;
    to.allow_all = request.allow_all;
    to.guided = request.guided;
    to.suppress_both = list(request.suppress_both);
    to.suppress_confidence = list(request.suppress_confidence);
    to.prob_of =
        list((request.want & kStatProbOf) != 0 ? request.prob_of : std::span<const std::int32_t>());
    requests_.push_back(to);
  }
  const auto upload = [&](DeviceMemory& memory, const void* from, std::uint64_t bytes) {
    if (bytes == 0) return;
    grow(memory, bytes, "head requests");
    cuda_check(
        cudaMemcpyAsync(memory.as<std::byte>(), from, bytes, cudaMemcpyHostToDevice, stream_.get()),
        "uploading head requests");
  };
  upload(head_requests_, requests_.data(), requests_.size() * sizeof(DeviceRequest));
  upload(head_ids_, ids_.data(), ids_.size() * sizeof(std::int32_t));
}

void CudaBackend::head_stats(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                             std::span<const StatsRequest> requests, HeadStats& stats) {
  const auto* matrix = dynamic_cast<const Matrix*>(&output);
  const auto* norm_vector = dynamic_cast<const Vector*>(&norm);
  DLLM_ASSERT(matrix != nullptr && norm_vector != nullptr && matrix->n_cols() == hidden.n_cols);
  for (const StatsRequest& request : requests) require_room(request, hidden.n_rows, stats);
  if (hidden.n_rows == 0 || requests.empty()) return;
  const Inputs inputs = head_input(hidden, *norm_vector, eps, *matrix);
  describe(requests, matrix->n_rows());

  const std::uint32_t most = piece_rows(chunk_rows(matrix->n_rows()), hidden.n_rows);
  rows_.clear();
  answer_rows_.clear();
  Piece piece;
  const auto flush = [&] {
    if (piece.n_rows > 0) answer_piece(piece, requests, *matrix, inputs, stats);
    rows_.clear();
    answer_rows_.clear();
    piece = {};
  };
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    const StatsRequest& request = requests[i];
    const std::uint32_t room = request.guided ? most / 2 : most;
    for (std::uint32_t done = 0; done < request.positions.size(); ++done) {
      const std::uint32_t row = request.first_row + done;
      const bool follows = piece.n_rows > 0 && piece.guided == request.guided &&
                           row == piece.first_row + piece.n_rows && piece.n_rows < room &&
                           (!request.guided || request.guidance_first_row + done ==
                                                   piece.pair_first_row + piece.n_rows);
      if (!follows) {
        flush();
        piece = {row, 0, request.guidance_first_row + done, request.guided};
      }
      rows_.push_back({i, piece.n_rows, 0, request.positions[done]});
      answer_rows_.push_back(row);
      ++piece.n_rows;
    }
  }
  flush();
}

// Of a piece of `n` rows; lists, which are rare, are not among them.
void CudaBackend::reserve_answers(std::uint32_t n, std::uint32_t n_vocab) {
  grow(head_rows_, n * sizeof(DeviceRow), "head rows");
  grow(partials_, n * head_partial_bytes(n_vocab), "head statistics");
  grow(answers_, n * sizeof(RowAnswer), "head statistics");
  if (host_answers_.bytes() >= n * sizeof(RowAnswer)) return;
  host_answers_ = PinnedMemory();
  host_answers_ = PinnedMemory(n * sizeof(RowAnswer), "head statistics");
}

void CudaBackend::answer_piece(const Piece& piece, std::span<const StatsRequest> requests,
                               const Matrix& output, const Inputs& inputs, HeadStats& stats) {
  const std::uint32_t n = piece.n_rows;
  const std::uint32_t n_vocab = output.n_rows();
  grow(logits_, std::uint64_t{piece.guided ? 2 * n : n} * n_vocab * sizeof(float), "logits");
  logits_to(output, inputs, piece.first_row, n, 0);
  if (piece.guided) logits_to(output, inputs, piece.pair_first_row, n, n);
  for (std::uint32_t i = 0; i < n; ++i) rows_[i].pair_row = n + i;

  reserve_answers(n, n_vocab);
  grow(probs_, std::uint64_t{n} * stats.prob_of_stride * sizeof(float), "head statistics");
  grow(top_ids_, std::uint64_t{n} * stats.top_stride * sizeof(std::int32_t), "head statistics");
  grow(top_probs_, std::uint64_t{n} * stats.top_stride * sizeof(float), "head statistics");
  cuda_check(cudaMemcpyAsync(head_rows_.as<std::byte>(), rows_.data(), n * sizeof(DeviceRow),
                             cudaMemcpyHostToDevice, stream_.get()),
             "uploading head rows");
  const HeadCall call = {head_rows_.as<DeviceRow>(),
                         head_requests_.as<DeviceRequest>(),
                         head_ids_.as<std::int32_t>(),
                         logits_.as<float>(),
                         n_vocab,
                         partials_.as<TilePartial>(),
                         answers_.as<RowAnswer>(),
                         probs_.as<float>(),
                         stats.prob_of_stride,
                         top_ids_.as<std::int32_t>(),
                         top_probs_.as<float>(),
                         stats.top_stride};
  {
    const EventTimer timer(profile_, Stage::stats, "row_stats", stream_.get());
    RowKinds kinds;
    for (const DeviceRow& row : rows_) {
      const DeviceRequest& request = requests_[row.request];
      kinds.whole |= request.whole;
      kinds.drawn |= !request.whole && request.draws;
      kinds.greedy |= !request.whole && !request.draws;
    }
    if (kinds.greedy || kinds.drawn) launch_streamed_rows(call, n, kinds, stream_.get());
    if (kinds.whole) launch_whole_rows(call, n, stream_.get());
  }
  cuda_check(cudaMemcpyAsync(host_answers_.as<std::byte>(), answers_.as<std::byte>(),
                             n * sizeof(RowAnswer), cudaMemcpyDeviceToHost, stream_.get()),
             "reading head statistics");
  cuda_check(cudaStreamSynchronize(stream_.get()), "the end of a step");
  profile_.report();
  for (std::uint32_t i = 0; i < n; ++i)
    write_answer(requests[rows_[i].request], host_answers_.as<RowAnswer>()[i], answer_rows_[i],
                 stats);
  // Lists are rare and short: one copy a row and list, of what the request asked for.
  for (std::uint32_t i = 0; i < n; ++i) {
    const StatsRequest& request = requests[rows_[i].request];
    const auto read = [&](auto& to, const auto* from, std::uint32_t stride, std::uint64_t count) {
      if (count == 0) return;
      cuda_check(cudaMemcpy(to.data() + std::uint64_t{answer_rows_[i]} * stride,
                            from + std::uint64_t{i} * stride, count * sizeof(*from),
                            cudaMemcpyDeviceToHost),
                 "reading lists");
    };
    if ((request.want & kStatProbOf) != 0)
      read(stats.prob_of, call.prob_of, stats.prob_of_stride, request.prob_of.size());
    if ((request.want & kStatTopList) != 0) {
      read(stats.top_ids, call.top_ids, stats.top_stride, request.top_list);
      read(stats.top_probs, call.top_probs, stats.top_stride, request.top_list);
    }
  }
}

void CudaBackend::logits(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                         std::span<float> out) {
  const auto* matrix = dynamic_cast<const Matrix*>(&output);
  const auto* norm_vector = dynamic_cast<const Vector*>(&norm);
  DLLM_ASSERT(matrix != nullptr && norm_vector != nullptr && matrix->n_cols() == hidden.n_cols);
  const std::uint64_t n_vocab = matrix->n_rows();
  DLLM_ASSERT(out.size() == hidden.n_rows * n_vocab);
  if (hidden.n_rows == 0) return;
  const Inputs inputs = head_input(hidden, *norm_vector, eps, *matrix);
  const std::uint32_t most = chunk_rows(matrix->n_rows());
  for (std::uint32_t first = 0; first < hidden.n_rows; first += most) {
    const std::uint32_t n = std::min(most, hidden.n_rows - first);
    grow(logits_, n * n_vocab * sizeof(float), "logits");
    logits_to(*matrix, inputs, first, n, 0);
    cuda_check(cudaMemcpyAsync(out.data() + first * n_vocab, logits_.as<float>(),
                               n * n_vocab * sizeof(float), cudaMemcpyDeviceToHost, stream_.get()),
               "reading logits");
    cuda_check(cudaStreamSynchronize(stream_.get()), "reading logits");
  }
  profile_.report();
}

}  // namespace dllm::cuda
