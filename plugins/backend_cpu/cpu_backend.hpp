// The CPU backend: dllm::Backend on one oneTBB arena and one table of kernels.
//
// Start here for the list of operations; each lives in the file of its name.
// Thread rule: one thread per object, as Backend says; inside, every region is Arena::for_each.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arena.hpp"
#include "attention_work.hpp"
#include "dllm/backend.hpp"
#include "head_rows.hpp"
#include "isa.hpp"
#include "matmul.hpp"
#include "memory.hpp"
#include "weight.hpp"

namespace dllm::cpu {

/// Widest rotation the rope table is reserved for; a wider one grows it in the first step.
constexpr std::uint32_t kRopeReserve = 128;

class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(std::uint32_t max_rows, std::uint32_t n_cols)
      : Buffer(max_rows, n_cols),
        memory_(std::uint64_t{max_rows} * n_cols * sizeof(float), "activations") {}
  float* row(std::uint32_t r) const noexcept {
    return memory_.as<float>() + std::uint64_t{r} * n_cols();
  }

 private:
  AlignedMemory memory_;
};

class CpuIndexList final : public IndexList {
 public:
  explicit CpuIndexList(std::uint32_t capacity) { values_.reserve(capacity); }
  void write(std::span<const std::int32_t> values) override;
  std::uint32_t size() const noexcept override {
    return static_cast<std::uint32_t>(values_.size());
  }
  std::span<const std::int32_t> values() const noexcept { return values_; }

 private:
  std::vector<std::int32_t> values_;
};

class CpuAttentionSpans final : public AttentionSpans {
 public:
  explicit CpuAttentionSpans(std::uint32_t capacity) { spans_.reserve(capacity); }
  void write(std::span<const AttentionSpan> spans) override;
  std::span<const AttentionSpan> spans() const noexcept { return spans_; }

 private:
  std::vector<AttentionSpan> spans_;
};

/// One thread's private memory, reached by its slot in the arena.
struct ThreadScratch {
  TileScratch tile;
  AlignedMemory accumulators;  // two passes of tiles for every row
  AlignedMemory row;           // one padded row of activations
  AlignedMemory head;
  std::int64_t products_ns = 0;  // of head_stats, while a profile is taken
  std::int64_t stats_ns = 0;
};

/// Memory of a panel, reused by every operation.
struct PanelMemory {
  AlignedMemory groups;
  AlignedMemory residuals;
  AlignedMemory values;
  AlignedMemory block_codes;
  AlignedMemory block_scales;
  AlignedMemory block_sums;
  AlignedMemory scaled_blocks;
  AlignedMemory brains;
};

/// Cosines and sines of a list of positions, and what they were made of.
struct RopeTable {
  RopeKind kind = RopeKind::norm;
  std::uint32_t n_rot = 0;
  double theta = 0;
  double scale = 0;
  std::vector<std::int32_t> positions;
  AlignedMemory values;
};

struct CpuOptions {
  unsigned n_threads = 1;
  ProductMode products = ProductMode::fast;
  Log log;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Isa& isa, const CpuOptions& options);
  ~CpuBackend() override;

  DeviceInfo device() const override;
  bool supports(Op op, DType weight_type) const override;
  std::unique_ptr<Buffer> make_buffer(std::uint32_t max_rows, std::uint32_t n_cols) override;
  std::unique_ptr<IndexList> make_index_list(std::uint32_t capacity) override;
  std::unique_ptr<AttentionSpans> make_attention_spans(std::uint32_t capacity) override;
  void reserve(const StepLimits& limits) override;
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
  void run_step(const StepKey&, const std::function<void()>& body) override { body(); }

  bool set_profile(ProfileSink* sink) override;
  std::optional<DevicePeak> measure_peak() override;
  std::optional<MemoryReport> memory_report() const override;

 private:
  // cpu_backend.cpp
  void log_memory() const;
  // inputs.cpp
  struct Needs {
    bool groups = false;
    bool residuals = false;
    bool values = false;
    bool blocks = false;
    bool scaled_blocks = false;
    bool brains = false;
    void add(InputForm form);
  };
  Panel make_panel(PanelMemory& memory, std::uint32_t n_rows, std::uint32_t n_cols, Needs needs);
  Panel prepare(TensorView x, const Weight* norm, float eps, Needs needs);
  void quantise_block(const float* x, std::uint64_t group_stride, const Panel& panel,
                      std::uint32_t block, std::uint32_t row) const;
  void quantise_groups(const QuantiseRows& in, const Panel& panel, std::uint64_t first_cell,
                       std::uint64_t group_stride) const;
  void finish_hidden_tile(const Panel& hidden, std::uint32_t tile, const float* values);
  void prepare_codes(TensorView x, const float* weights, float eps, const Panel& panel);
  void prepare_rows(TensorView x, const float* weights, float eps, const Panel& panel);
  // linear.cpp
  void add_products(const Panel& panel, const Matrix& weight, const Weight* bias,
                    TensorView residual);
  void reserve_accumulators(std::uint32_t n_rows);
  struct TileResult;
  template <typename Use>
  void multiply_pass(const Matrix& weight, TileRange tiles, const Panel& panel, unsigned slot,
                     Use use);
  /// Tells a profile of all products of `weight` with n_rows rows.
  void add_products_work(StageTimer& timer, const Matrix& weight, std::uint32_t n_rows) const;
  std::uint32_t tile_grain(const Matrix& weight, std::uint32_t n_rows) const;
  // attention.cpp
  const AttentionMath& attention_math() const;
  // rope.cpp
  const float* rope_table(const IndexList& positions, const RopeParams& params);
  void fill_rope_table(RopeTable& table, std::span<const std::int32_t> positions,
                       const RopeParams& params);
  // head_stats.cpp, head_filter.cpp
  void reserve_head(std::uint32_t n_rows, std::uint32_t n_vocab);
  void list_head_rows(std::span<const StatsRequest> requests, std::uint32_t n_vocab);
  void stream_rows(const Panel& panel, const Matrix& output, HeadStats& stats);
  void store_rows(const Panel& panel, const Matrix& output, HeadStats& stats);
  void move_stats_share(std::int64_t region_ns);
  void logits_of(const Panel& panel, const Matrix& output, std::uint32_t first_row,
                 std::uint32_t n_rows, float* out);
  ThreadScratch& scratch(unsigned slot) { return *scratch_[slot]; }

  const Isa& isa_;
  const Kernels& kernels_;
  Multiplier multiplier_;
  CpuOptions options_;
  std::string processor_;
  Arena arena_;
  ProfileSink* profile_ = nullptr;
  std::vector<std::unique_ptr<ThreadScratch>> scratch_;
  Needs imported_;  // by all matrices so far
  PanelMemory input_;
  PanelMemory hidden_;  // between the two halves of gated_mlp
  AlignedMemory hidden_tiles_done_;
  std::array<RopeTable, 2> rope_tables_;  // the one used last comes first
  std::vector<double> rope_frequencies_;
  AttentionWork attention_work_;
  std::vector<HeadRow> head_rows_;
  AlignedMemory head_partials_;
  AlignedMemory head_best_draws_;
  AlignedMemory head_probes_;  // logits of prob_of ids
  AlignedMemory stored_logits_;
};

// The concrete object behind an opaque handle.
inline CpuBuffer& buffer_of(const TensorView& view) {
  return static_cast<CpuBuffer&>(*view.buffer);
}
const Matrix& matrix_of(const Weight& weight);
const float* vector_of(const Weight& weight, std::uint32_t n);

}  // namespace dllm::cpu
