// Backend: memory, weights and the coarse operations a model's forward pass is written in.
//
//   auto x = backend.make_buffer(max_tokens, width);
//   backend.embed(*table, *ids, x->rows(n));
//   backend.norm_linear(x->rows(n), norm.get(), eps, projections);
//
// A backend is a plugin (plugins/backend_*). Buffers, weights and index lists are opaque: only the
// backend that made them looks inside, so a model never names a device. Activations are f32 to the
// model; how a backend keeps or quantises them is its own business.
//
// Determinism: the order of accumulation of an output element depends only on shapes, device and
// instruction set, never on the number of rows, threads or neighbours in the batch.
// Thread rule: one thread per Backend object; it may use many threads inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dllm/dtype.hpp"
#include "dllm/gguf.hpp"
#include "dllm/head_stats.hpp"
#include "dllm/log.hpp"
#include "dllm/options.hpp"
#include "dllm/profile.hpp"

namespace dllm {

class Buffer;

/// The first `n_rows` rows of a buffer: a logical [n_rows, n_cols] f32 matrix. Borrows the buffer,
/// which its model keeps alive for longer than any step.
struct TensorView {
  Buffer* buffer = nullptr;
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
};

/// Activation memory, [max_rows, n_cols], made by a backend before the first step.
class Buffer {
 public:
  Buffer(std::uint32_t max_rows, std::uint32_t n_cols) : max_rows_(max_rows), n_cols_(n_cols) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  std::uint32_t max_rows() const noexcept { return max_rows_; }
  std::uint32_t n_cols() const noexcept { return n_cols_; }
  TensorView rows(std::uint32_t n) noexcept { return {this, n, n_cols_}; }

 private:
  std::uint32_t max_rows_;
  std::uint32_t n_cols_;
};

/// A list of int32 the device reads (token ids, positions, row numbers); rewritten every step.
class IndexList {
 public:
  IndexList() = default;
  IndexList(const IndexList&) = delete;
  IndexList& operator=(const IndexList&) = delete;
  virtual ~IndexList() = default;
  /// At most the capacity given to make_index_list. Not inside a recorded step.
  virtual void write(std::span<const std::int32_t> values) = 0;
  virtual std::uint32_t size() const noexcept = 0;
};

/// Who may see whom inside one sequence. Only `full` is built; the others are reserved and refused
/// by name.
enum class MaskKind : std::uint8_t { full, block_causal, prefix_causal, window };

/// As messages name it: "block_causal".
inline std::string_view mask_kind_name(MaskKind mask) {
  switch (mask) {
    case MaskKind::full:
      return "full";
    case MaskKind::block_causal:
      return "block_causal";
    case MaskKind::prefix_causal:
      return "prefix_causal";
    case MaskKind::window:
      return "window";
  }
  return "unknown";
}

/// One sequence of an attention call: queries are rows [q_begin, q_begin + q_count) of q and out,
/// keys and values rows [kv_begin, kv_begin + kv_count) of k and v.
struct AttentionSpan {
  std::uint32_t q_begin = 0;
  std::uint32_t q_count = 0;
  std::uint32_t kv_begin = 0;
  std::uint32_t kv_count = 0;
  MaskKind mask = MaskKind::full;
};

/// The sequences of one attention call, held where the device reads them; rewritten every step.
class AttentionSpans {
 public:
  AttentionSpans() = default;
  AttentionSpans(const AttentionSpans&) = delete;
  AttentionSpans& operator=(const AttentionSpans&) = delete;
  virtual ~AttentionSpans() = default;
  /// At most the capacity given to make_attention_spans. Not inside a recorded step.
  virtual void write(std::span<const AttentionSpan> spans) = 0;
};

/// How several GPUs of one backend would split a weight; a backend with one device ignores it.
enum class WeightRole : std::uint8_t {
  replicated,    ///< norms, biases of row-split matrices
  column_split,  ///< output features are split (gate, up, output)
  row_split,     ///< input features are split, results are summed (attn_output, ffn_down)
  head_split,    ///< output features are split by attention head (q, k, v)
  embedding      ///< looked up by row, may stay mapped
};

/// An imported tensor: a matrix y = W x with n_rows outputs and n_cols inputs, or a vector
/// (n_rows 1).
class Weight {
 public:
  Weight(std::string name, DType dtype, std::uint32_t n_rows, std::uint32_t n_cols)
      : name_(std::move(name)), dtype_(dtype), n_rows_(n_rows), n_cols_(n_cols) {}
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  virtual ~Weight() = default;

  const std::string& name() const noexcept { return name_; }
  DType dtype() const noexcept { return dtype_; }
  std::uint32_t n_rows() const noexcept { return n_rows_; }
  std::uint32_t n_cols() const noexcept { return n_cols_; }

 private:
  std::string name_;
  DType dtype_;
  std::uint32_t n_rows_;
  std::uint32_t n_cols_;
};

/// A tensor that will be imported.
struct PlannedImport {
  const TensorInfo* tensor = nullptr;
  WeightRole role = WeightRole::replicated;
};

/// One of several projections that read the same (normalised) input:
/// out[r, o] = sum_i W[o, i] x[r, i] (+ bias[o]).
struct Projection {
  const Weight* weight = nullptr;
  const Weight* bias = nullptr;  ///< vector of out.n_cols, or null
  TensorView out;                ///< must not alias the input
};

/// `norm` rotates adjacent pairs (2i, 2i+1), `neox` pairs (i, i + n_rot / 2).
enum class RopeKind : std::uint8_t { norm, neox };

struct RopeParams {
  RopeKind kind = RopeKind::norm;
  std::uint32_t n_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t n_rot = 0;  ///< leading dimensions of a head that rotate; even, <= head_dim
  double theta = 10000.0;   ///< angle of pair m at position p: p * scale * theta^(-2m/n_rot)
  double scale = 1.0;       ///< 1 / linear rope scaling factor
  const Weight* head_norm = nullptr;  ///< per-head RMS norm applied before rotating, [head_dim]
  float head_norm_eps = 0;
};

struct AttentionParams {
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;  ///< query head h reads kv head h * n_kv_heads / n_heads
  std::uint32_t head_dim = 0;
  float scale = 0;  ///< multiplies q.k, usually 1 / sqrt(head_dim)
};

/// The most a step will ask for; everything is allocated from these before the first step.
struct StepLimits {
  std::uint32_t max_tokens = 0;      ///< rows of a forward, guidance pairs included
  std::uint32_t max_score_rows = 0;  ///< rows through the head
  std::uint32_t max_sequences = 0;
  std::uint32_t width = 0;     ///< embedding length
  std::uint32_t max_cols = 0;  ///< widest input of any projection
  std::uint32_t ffn_cols = 0;  ///< feed-forward length
  std::uint32_t n_vocab = 0;   ///< rows of the output matrix
  std::uint32_t max_heads = 0;
  std::uint32_t max_sequence_length = 0;
};

/// Which recorded step may be replayed: equal keys mean equal shapes, of the same model.
struct StepKey {
  const void* owner = nullptr;  ///< the model whose buffers and weights the step uses
  std::uint32_t n_tokens = 0;
  std::uint32_t n_score_rows = 0;
  std::uint32_t n_sequences = 0;
};

struct DeviceInfo {
  std::string backend;                ///< plugin id: "cpu"
  std::string name;                   ///< "AMD EPYC, 2 threads, avx2"
  std::string isa;                    ///< instruction set or compute capability in use
  std::uint32_t threads = 0;          ///< 0 where it makes no sense
  std::uint64_t total_bytes = 0;      ///< memory of the device
  std::uint64_t available_bytes = 0;  ///< memory a load could take now
};

/// What a device can do at most, measured in place: what a step is compared with.
struct DevicePeak {
  double integer_tops = 0;   ///< 1e12 int8 operations/s of the fastest unit the backend uses
  std::string integer_unit;  ///< "avx512vnni vpdpbusd"
  double float_tflops = 0;   ///< f32 multiply-adds, 2 operations each
  double read_gb_per_s = 0;  ///< 1e9 bytes/s from memory, not from a cache
};

/// Where the weights lie.
struct MemoryReport {
  std::uint64_t resident_bytes = 0;  ///< large pieces of the backend's memory that are resident
  std::uint64_t huge_bytes = 0;      ///< of those, in huge pages
  std::string huge_pages;            ///< what the system grants: "madvise", "never"
};

enum class Op : std::uint8_t {
  embed,
  norm_linear,
  rope,
  attention,
  linear_residual,
  gated_mlp,
  head_stats,
  logits,
  copy_rows
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual DeviceInfo device() const = 0;
  /// Asked at load, per op and weight type, so that a gap is named before anything is uploaded.
  virtual bool supports(Op op, DType weight_type) const = 0;

  // Memory. All throw Error (resource) with the bytes needed and available.
  virtual std::unique_ptr<Buffer> make_buffer(std::uint32_t max_rows, std::uint32_t n_cols) = 0;
  virtual std::unique_ptr<IndexList> make_index_list(std::uint32_t capacity) = 0;
  virtual std::unique_ptr<AttentionSpans> make_attention_spans(std::uint32_t capacity) = 0;
  /// Sizes all scratch; called once per model before the first step (again to grow).
  virtual void reserve(const StepLimits& limits) = 0;

  /// Asked before the first import: throws Error (resource) with the bytes needed and available
  /// where these tensors do not fit together. Does nothing where tensors stay mapped or memory is
  /// the system's.
  virtual void check_room(std::span<const PlannedImport>) const {}
  /// Takes a tensor over: copies or repacks it into device memory, then drops the mapping's pages.
  /// Role `embedding` and vectors may stay mapped; `file` is kept alive as long as needed. Throws
  /// Error (unsupported) naming tensor and type.
  virtual std::unique_ptr<Weight> import_weight(std::shared_ptr<const GgufFile> file,
                                                const TensorInfo& tensor, WeightRole role) = 0;

  // Operations. [rows, cols] of every argument are in its view; shapes that disagree are an
  // internal Error. Norm is RMSNorm: x_j * w_j / sqrt(mean(x^2) + eps).

  /// out[r] = table[ids[r]]. out: [ids.size(), table.n_cols].
  virtual void embed(const Weight& table, const IndexList& ids, TensorView out) = 0;
  /// Projections of RMSNorm(x) (or of x itself where norm is null). x: [n, in].
  virtual void norm_linear(TensorView x, const Weight* norm, float eps,
                           std::span<const Projection> projections) = 0;
  /// Rotates x in place. x: [positions.size(), n_heads * head_dim].
  virtual void rope(TensorView x, const IndexList& positions, const RopeParams& params) = 0;
  /// out = softmax(scale q k^T) v per span and head. q, out: [., n_heads * head_dim];
  /// k, v: [., n_kv_heads * head_dim]. out must not alias. What q, k and v hold afterwards is not
  /// specified: a backend may finish them only on their way in.
  virtual void attention(TensorView q, TensorView k, TensorView v, const AttentionSpans& spans,
                         const AttentionParams& params, TensorView out) = 0;
  /// residual += W x (+ bias). x: [n, in], residual: [n, out].
  virtual void linear_residual(TensorView x, const Weight& weight, const Weight* bias,
                               TensorView residual) = 0;
  /// x += down(silu(gate(h)) * up(h)), h = RMSNorm(x). x: [n, width].
  virtual void gated_mlp(TensorView x, const Weight& norm, float eps, const Weight& gate,
                         const Weight& up, const Weight& down) = 0;
  /// dst[i] = src[rows[i]]. dst must not alias src.
  virtual void copy_rows(TensorView src, const IndexList& rows, TensorView dst) = 0;
  /// Head and statistics in one op: the logits of RMSNorm(hidden) under `output`, some at a time,
  /// and per asked row what `requests` want (head_stats.hpp defines every figure). What it stores
  /// of them does not grow with rows x vocabulary. Blocks until `stats` is filled.
  virtual void head_stats(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                          std::span<const StatsRequest> requests, HeadStats& stats) = 0;
  /// Opt-in: whole logits of every row of hidden to the host, out[r * n_vocab + v]. Blocks.
  virtual void logits(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                      std::span<float> out) = 0;

  /// Runs `body` (a sequence of the ops above up to, not including, head_stats or logits). A device
  /// that can records it once per key and replays it after; here is where lists are already
  /// written.
  virtual void run_step(const StepKey& key, const std::function<void()>& body) = 0;

  /// From now on spans go to `sink` (profile.hpp), which must outlive its use; null ends that.
  /// False where the backend cannot report.
  virtual bool set_profile(ProfileSink*) { return false; }
  /// Measures the device for up to about a second; nullopt where the backend cannot.
  virtual std::optional<DevicePeak> measure_peak() { return std::nullopt; }
  virtual std::optional<MemoryReport> memory_report() const { return std::nullopt; }
};

/// What a backend plugin's entry returns; lives as long as the process.
class BackendFactory {
 public:
  virtual ~BackendFactory() = default;

  struct Probe {
    bool usable = false;
    std::string reason;               ///< why not, where not usable
    std::vector<DeviceInfo> devices;  ///< for --list-devices
  };
  /// Looks at the machine; cheap, never throws for a missing device.
  virtual Probe probe() const = 0;
  /// `--backend auto` takes the usable backend with the highest preference (cpu 0, cuda 100).
  virtual int preference() const = 0;
  virtual std::span<const OptionInfo> options() const = 0;
  /// Throws Error (resource) with the reason when the device cannot be used.
  virtual std::unique_ptr<Backend> create(const OptionValues& options, const Log& log) const = 0;
};

}  // namespace dllm
