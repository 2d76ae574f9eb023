// A backend that computes nothing: it counts memory, remembers imports, and writes down every
// operation with its shapes, for tests of what a model asks for.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "dllm/backend.hpp"
#include "dllm/error.hpp"

namespace dllm::test {

class RecordingBackend final : public Backend {
 public:
  // What the tests read.
  std::vector<std::string> imports;  ///< "name role", in order
  std::vector<std::string> ops;      ///< one line an operation; only while `record` is set
  std::vector<std::vector<std::int32_t>> written;  ///< by index list, in order of writing
  StepLimits limits;
  StepKey key;
  std::vector<AttentionSpan> last_spans;
  std::set<DType> unsupported;
  std::uint64_t room_bytes = ~std::uint64_t{0};  ///< for all tensors together
  bool record = true;

  DeviceInfo device() const override {
    DeviceInfo info;
    info.backend = "recording";
    return info;
  }
  bool supports(Op, DType type) const override { return !unsupported.contains(type); }

  std::unique_ptr<Buffer> make_buffer(std::uint32_t rows, std::uint32_t cols) override {
    return std::make_unique<Buffer_>(rows, cols);
  }
  std::unique_ptr<IndexList> make_index_list(std::uint32_t capacity) override {
    return std::make_unique<List>(*this, capacity);
  }
  std::unique_ptr<AttentionSpans> make_attention_spans(std::uint32_t capacity) override {
    return std::make_unique<Spans>(capacity);
  }
  void reserve(const StepLimits& wanted) override { limits = wanted; }

  void check_room(std::span<const PlannedImport> planned) const override {
    std::uint64_t bytes = 0;
    for (const PlannedImport& each : planned) bytes += each.tensor->bytes;
    if (bytes > room_bytes)
      throw Error(ErrorCode::resource, "needs " + std::to_string(bytes) + " bytes", "recording");
  }
  std::unique_ptr<Weight> import_weight(std::shared_ptr<const GgufFile>, const TensorInfo& tensor,
                                        WeightRole role) override {
    static constexpr const char* kRoles[] = {"replicated", "column_split", "row_split",
                                             "head_split", "embedding"};
    imports.push_back(tensor.name + " " + kRoles[static_cast<int>(role)]);
    const auto rows = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
    return std::make_unique<Weight_>(tensor.name, tensor.dtype, static_cast<std::uint32_t>(rows),
                                     static_cast<std::uint32_t>(tensor.shape[0]));
  }

  void embed(const Weight& table, const IndexList& ids, TensorView out) override {
    note("embed", table.name(), ids.size(), out);
  }
  void norm_linear(TensorView x, const Weight* norm, float,
                   std::span<const Projection> projections) override {
    if (!record) return;
    std::string names = norm->name() + ":";
    for (const auto& p : projections) {
      names += " " + p.weight->name() + (p.bias != nullptr ? "+bias" : "") + shape(p.out);
    }
    note("norm_linear", names, x.n_rows, x);
  }
  void rope(TensorView x, const IndexList& positions, const RopeParams& params) override {
    note(params.kind == RopeKind::norm ? "rope norm" : "rope neox", std::to_string(params.n_heads),
         positions.size(), x);
  }
  void attention(TensorView q, TensorView k, TensorView, const AttentionSpans& spans,
                 const AttentionParams&, TensorView out) override {
    if (!record) return;
    last_spans = static_cast<const Spans&>(spans).values;
    note("attention", "q" + shape(q) + " k" + shape(k), out.n_rows, out);
  }
  void linear_residual(TensorView x, const Weight& weight, const Weight*,
                       TensorView residual) override {
    note("linear_residual", weight.name(), x.n_rows, residual);
  }
  void gated_mlp(TensorView x, const Weight&, float, const Weight& gate, const Weight&,
                 const Weight&) override {
    note("gated_mlp", gate.name(), x.n_rows, x);
  }
  void copy_rows(TensorView src, const IndexList& rows, TensorView dst) override {
    note("copy_rows", shape(src), rows.size(), dst);
  }
  void head_stats(TensorView hidden, const Weight&, float, const Weight& output,
                  std::span<const StatsRequest>, HeadStats&) override {
    note("head_stats", output.name(), hidden.n_rows, hidden);
  }
  void logits(TensorView hidden, const Weight&, float, const Weight& output,
              std::span<float>) override {
    note("logits", output.name(), hidden.n_rows, hidden);
  }
  void run_step(const StepKey& step, const std::function<void()>& body) override {
    key = step;
    body();
  }

 private:
  struct Buffer_ final : Buffer {
    using Buffer::Buffer;
  };
  struct Weight_ final : Weight {
    using Weight::Weight;
  };
  struct List final : IndexList {
    List(RecordingBackend& backend, std::uint32_t capacity) : owner(backend) {
      values.reserve(capacity);
    }
    void write(std::span<const std::int32_t> given) override {
      values.assign(given.begin(), given.end());
      if (owner.record) owner.written.push_back(values);
    }
    std::uint32_t size() const noexcept override {
      return static_cast<std::uint32_t>(values.size());
    }
    RecordingBackend& owner;
    std::vector<std::int32_t> values;
  };
  struct Spans final : AttentionSpans {
    explicit Spans(std::uint32_t capacity) { values.reserve(capacity); }
    void write(std::span<const AttentionSpan> given) override {
      values.assign(given.begin(), given.end());
    }
    std::vector<AttentionSpan> values;
  };

  static std::string shape(TensorView view) {
    return "[" + std::to_string(view.n_rows) + "x" + std::to_string(view.n_cols) + "]";
  }
  void note(const char* op, const std::string& what, std::uint32_t n, TensorView view) {
    if (record) ops.push_back(std::string(op) + " " + what + " " + std::to_string(n) + shape(view));
  }
};

}  // namespace dllm::test
