// The CUDA backend: one GPU, one stream, everything resident.
//
// Ops only enqueue kernels, so run_step() can record them. Start with cuda_backend.cpp (the
// operations in Backend's order, attention in attention_call.cpp, the head in head_call.cpp,
// the ways of multiplying in product_call.cpp), then the kernels they launch: rows.cu, gemm.cu,
// heads.cu, attention.cu, head_stream.cu, head_whole.cu. Thread rule: one thread per backend.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device_lists.hpp"
#include "device_memory.hpp"
#include "dllm/backend.hpp"
#include "dllm/log.hpp"
#include "event_profile.hpp"
#include "gemm.hpp"
#include "head.hpp"
#include "panels.hpp"
#include "rotations.hpp"
#include "rows.hpp"
#include "step_graphs.hpp"
#include "waiting_sums.hpp"
#include "weights.hpp"

namespace dllm::cuda {

struct CudaOptions {
  int device = 0;
  std::optional<Products> products;  // none: mixed where the device and its memory allow, else f16
  std::uint64_t memory_limit = 0;    // bytes in use, by others too, to stay below; 0: what is free
  Log log;
};

/// The compute stream, owned.
class Stream {
 public:
  explicit Stream(int device);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options);

  DeviceInfo device() const override;
  bool supports(Op op, DType weight_type) const override;
  std::unique_ptr<Buffer> make_buffer(std::uint32_t max_rows, std::uint32_t n_cols) override;
  std::unique_ptr<IndexList> make_index_list(std::uint32_t capacity) override;
  std::unique_ptr<AttentionSpans> make_attention_spans(std::uint32_t capacity) override;
  void reserve(const StepLimits& limits) override;
  /// Chooses how products are computed, too, where the options leave it open: mixed products need
  /// more memory than binary16 ones, whose weights stay packed.
  void check_room(std::span<const PlannedImport> imports) const override;
  std::unique_ptr<Weight> import_weight(std::shared_ptr<const GgufFile> file,
                                        const TensorInfo& tensor, WeightRole role) override;

  void embed(const Weight& table, const IndexList& ids, TensorView out) override;
  void norm_linear(TensorView x, const Weight* norm, float eps,
                   std::span<const Projection> projections) override;
  void rope(TensorView x, const IndexList& positions, const RopeParams& params) override;
  void attention(TensorView q, TensorView k, TensorView v, const AttentionSpans& spans,
                 const AttentionParams& params, TensorView out) override;
  void linear_residual(TensorView x, const Weight& weight, const Weight* bias,
                       TensorView residual) override;
  void gated_mlp(TensorView x, const Weight& norm, float eps, const Weight& gate, const Weight& up,
                 const Weight& down) override;
  void copy_rows(TensorView src, const IndexList& rows, TensorView dst) override;
  void head_stats(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                  std::span<const StatsRequest> requests, HeadStats& stats) override;
  void logits(TensorView hidden, const Weight& norm, float eps, const Weight& output,
              std::span<float> out) override;
  void run_step(const StepKey& key, const std::function<void()>& body) override;
  /// While a sink is set, steps run op by op instead of recorded.
  bool set_profile(ProfileSink* sink) override {
    profile_.set_sink(sink);
    return true;
  }

 private:
  /// Rows of a call whose logits are computed together.
  struct Piece {
    std::uint32_t first_row = 0;
    std::uint32_t n_rows = 0;
    std::uint32_t pair_first_row = 0;  // where guided
    bool guided = false;
  };

  /// Rows of a view, to be read; to be read by what adds their sums; to be read and changed; to be
  /// written anew.
  Rows rows_of(const TensorView& view);
  SummedRows summed_rows_of(const TensorView& view);
  void forget_prepared(const Rows& rows);
  Rows changed_rows_of(const TensorView& view);
  Rows new_rows_of(const TensorView& view);

  void require_memory(std::uint64_t bytes, const std::string& what) const;
  void grow(DeviceMemory& memory, std::uint64_t bytes, const char* what);
  /// Heads of at most `head_dim` dimensions, as far as attention can run them.
  void reserve_attention(std::uint64_t n_rows, std::uint32_t n_heads, std::uint32_t head_dim);
  HeadRows head_rows(std::uint64_t first_row, std::uint32_t n_rows, std::uint32_t n_heads,
                     std::uint32_t head_dim) const;
  /// Memory of a product's input, for both ways of multiplying.
  struct InputMemory {
    DeviceMemory values, scales;  // f16
    DeviceMemory codes, steps;    // int8
  };
  /// Where an input of that way lies, not yet written.
  void place_input(InputMemory& memory, Way way, std::uint32_t n_rows, std::uint32_t n_cols,
                   Inputs& inputs);
  /// Notes a matrix; the way of the product that reads attention's result of that width, if all
  /// that may do it take the same.
  void note_reader(WeightRole role, const Matrix& matrix);
  std::optional<Way> way_of_reader(std::uint32_t n_cols) const;
  Inputs inputs_for(std::span<const Product> products, const SummedRows& x, const float* norm,
                    float eps);
  /// [n_rows, n_cols] f32 of the running feed-forward layer.
  Rows hidden_rows(DeviceMemory& memory, std::uint32_t n_rows, std::uint32_t n_cols);
  Inputs hidden_inputs(const Matrix& gate, const Matrix& up, const Matrix& down, const Weight& norm,
                       float eps, TensorView x);
  void reserve_gemm_work(std::uint64_t n_rows);
  /// `may_wait`: whether the results are read through rows_of() and its like alone.
  void multiply(std::span<const Product> products, const Inputs& inputs, bool may_wait);
  std::uint32_t chunk_rows(std::uint32_t n_vocab) const;
  void logits_to(const Matrix& output, const Inputs& inputs, std::uint32_t first_row,
                 std::uint32_t n_rows, std::uint32_t to_row);
  Inputs head_input(TensorView hidden, const Vector& norm, float eps, const Matrix& output);
  void describe(std::span<const StatsRequest> requests, std::uint32_t n_vocab);
  void reserve_answers(std::uint32_t n, std::uint32_t n_vocab);
  void answer_piece(const Piece& piece, std::span<const StatsRequest> requests,
                    const Matrix& output, const Inputs& inputs, HeadStats& stats);

  CudaOptions options_;
  mutable Products mode_ = Products::f16;  // check_room() has the last word on it
  bool has_matrices_ = false;
  Stream stream_;
  cudaDeviceProp properties_{};
  GemmDevice gemm_device_;
  Staging staging_;
  StepGraphs graphs_;
  EventProfile profile_;
  WaitingSums sums_;
  Rotations rotations_{sums_};
  std::shared_ptr<std::uint32_t> long_lists_ = std::make_shared<std::uint32_t>(0);

  InputMemory input_;  // of the running product
  /// Rows that lie in input_, too, as a product reads them: attention writes both.
  struct Prepared {
    Rows rows;
    Inputs inputs;
    Way way = Way::f16;
  };
  Prepared prepared_;                 // until either is written anew
  InputMemory hidden_;                // of the running feed-forward layer
  DeviceMemory heads_, head_scales_;  // q, k and v of the running attention
  DeviceMemory group_scales_;         // of v
  DeviceMemory gate_, up_;            // [n, ffn] f32
  DeviceMemory gemm_work_;            // parts of split products, until they are added
  DeviceMemory logits_;               // [chunk_rows, n_vocab]
  DeviceMemory head_requests_, head_ids_, head_rows_;
  DeviceMemory partials_, answers_, probs_, top_ids_, top_probs_;
  PinnedMemory host_answers_;
  std::vector<Product> products_;  // of the running norm_linear
  /// Of row-split matrices by their inputs; none: they differ.
  std::map<std::uint32_t, std::optional<Way>> reader_ways_;
  // What the host builds for a call of head_stats.
  std::vector<DeviceRequest> requests_;
  std::vector<std::int32_t> ids_;
  std::vector<DeviceRow> rows_;
  std::vector<std::uint32_t> answer_rows_;
};

}  // namespace dllm::cuda
