#include "model_common/weights.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "dllm/error.hpp"
#include "model_common/text.hpp"

namespace dllm::model_common {
namespace {

std::string_view op_name(Op op) {
  switch (op) {
    case Op::embed:
      return "embedding lookup";
    case Op::norm_linear:
      return "a projection";
    case Op::linear_residual:
      return "the attention output";
    case Op::gated_mlp:
      return "the feed-forward block";
    case Op::head_stats:
      return "the output head";
    default:
      return "this operation";
  }
}

/// N of "blk.N.rest", or nothing.
std::optional<std::uint32_t> layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  std::uint32_t layer = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 4, end, layer);
  if (error != std::errc{} || rest == end || *rest != '.') return std::nullopt;
  return layer;
}

/// Why a tensor that no slot takes must not be passed over: it would change the forward pass.
/// Empty where ignoring it is safe.
std::string_view refusal_of(std::string_view name) {
  if (name.find(".attn_qkv.") != name.npos) return "fused Q, K and V are not supported";
  if (name.find("_norm.") != name.npos) return "this architecture's plugin has no such norm";
  if (name.find("_exps.") != name.npos || name.find("ffn_gate_inp") != name.npos) {
    return "mixtures of experts belong to another architecture";
  }
  if (name.ends_with(".bias")) return "this architecture's plugin applies no such bias";
  return {};
}

/// A norm or bias that is not a number would silence every row; `tensor` is F32.
void check_finite(const GgufFile& file, const TensorInfo& tensor, const std::string& where) {
  const auto bytes = file.data(tensor);
  for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
    if (!std::isfinite(value)) {
      throw Error(ErrorCode::bad_file, text("tensor ", tensor.name, " holds ", value, " at ", i),
                  where, "the file is damaged: download or convert it again");
    }
  }
}

}  // namespace

WeightPlan::WeightPlan(const GgufFile& file, const HyperParameters& hp,
                       const Architecture& architecture, ModelWeights& weights)
    : file_(file), hp_(hp), architecture_(architecture.name) {
  const std::uint64_t width = hp.info.width;
  const std::uint64_t vocab = hp.info.n_vocab;
  add("token_embd.weight", {width, vocab}, WeightRole::embedding, Op::embed, weights.token_embd);
  add("output_norm.weight", {width}, WeightRole::replicated, Op::head_stats, weights.output_norm);
  add(hp.tied_output ? "token_embd.weight" : "output.weight", {width, vocab},
      WeightRole::column_split, Op::head_stats, weights.output);
  weights.layers.clear();
  weights.layers.resize(hp.info.n_layers);
  for (std::uint32_t layer = 0; layer < hp.info.n_layers; ++layer) {
    add_layer(layer, weights.layers[layer], architecture.qkv_bias);
  }
}

void WeightPlan::add(std::string name, std::vector<std::uint64_t> shape, WeightRole role, Op op,
                     std::unique_ptr<Weight>& slot, bool required) {
  const TensorInfo* tensor = file_.find_tensor(name);
  entries_.push_back({std::move(name), std::move(shape), role, op, required, &slot, tensor});
}

void WeightPlan::add_layer(std::uint32_t layer, LayerWeights& weights, bool qkv_bias) {
  const std::uint64_t width = hp_.info.width;
  const std::uint64_t ffn = hp_.info.ffn_length;
  const std::uint64_t q = hp_.q_cols();
  const std::uint64_t kv = hp_.kv_cols();
  const std::string at = text("blk.", layer, ".");
  using enum WeightRole;
  add(at + "attn_norm.weight", {width}, replicated, Op::norm_linear, weights.attn_norm);
  add(at + "attn_q.weight", {width, q}, head_split, Op::norm_linear, weights.attn_q);
  add(at + "attn_k.weight", {width, kv}, head_split, Op::norm_linear, weights.attn_k);
  add(at + "attn_v.weight", {width, kv}, head_split, Op::norm_linear, weights.attn_v);
  if (qkv_bias) {
    add(at + "attn_q.bias", {q}, head_split, Op::norm_linear, weights.attn_q_bias, false);
    add(at + "attn_k.bias", {kv}, head_split, Op::norm_linear, weights.attn_k_bias, false);
    add(at + "attn_v.bias", {kv}, head_split, Op::norm_linear, weights.attn_v_bias, false);
  }
  add(at + "attn_output.weight", {q, width}, row_split, Op::linear_residual, weights.attn_output);
  add(at + "ffn_norm.weight", {width}, replicated, Op::gated_mlp, weights.ffn_norm);
  add(at + "ffn_gate.weight", {width, ffn}, column_split, Op::gated_mlp, weights.ffn_gate);
  add(at + "ffn_up.weight", {width, ffn}, column_split, Op::gated_mlp, weights.ffn_up);
  add(at + "ffn_down.weight", {ffn, width}, row_split, Op::gated_mlp, weights.ffn_down);
}

void WeightPlan::check(const Backend& backend, const Log& log) const {
  std::unordered_set<std::string_view> planned;
  for (const Entry& entry : entries_) planned.insert(entry.name);
  // Tensors nobody asked for first: a fused tensor explains why the separate ones are missing.
  for (const TensorInfo& tensor : file_.tensors()) {
    if (!planned.contains(tensor.name)) check_unplanned(tensor, log);
  }
  for (const Entry& entry : entries_) check_entry(entry, backend);
  check_optional_together();
  std::vector<PlannedImport> imports;
  for (const Entry& entry : entries_)
    if (entry.tensor != nullptr) imports.push_back({entry.tensor, entry.role});
  backend.check_room(imports);
}

/// Optional tensors (the QKV biases) belong to the checkpoint or they do not: one that is there
/// without the others tells of a damaged file, whose answers would be wrong without a word.
void WeightPlan::check_optional_together() const {
  const Entry* present = nullptr;
  const Entry* absent = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.required) continue;
    const Entry*& seen = entry.tensor != nullptr ? present : absent;
    if (seen == nullptr) seen = &entry;
  }
  if (present == nullptr || absent == nullptr) return;
  throw Error(ErrorCode::bad_file,
              text("tensor ", absent->name, " is missing, but ", present->name, " is there"),
              text(file_.path().string(), ", tensor ", absent->name),
              "convert the model again, or download the complete file");
}

void WeightPlan::check_entry(const Entry& entry, const Backend& backend) const {
  const std::string where = text(file_.path().string(), ", tensor ", entry.name);
  if (entry.tensor == nullptr) {
    if (!entry.required) return;
    throw Error(ErrorCode::bad_file, text("tensor ", entry.name, " is missing"), where,
                "convert the model again, or download the complete file");
  }
  const TensorInfo& tensor = *entry.tensor;
  if (tensor.shape != entry.shape) {
    throw Error(ErrorCode::bad_file,
                text("tensor ", entry.name, " has shape ", tensor.shape_text(), ", expected ",
                     shape_text(entry.shape), " from the file's ", architecture_, ".* keys"),
                where, "the keys and the tensors disagree: convert the model again");
  }
  const bool is_vector = entry.shape.size() == 1;
  if (is_vector && tensor.dtype != DType::f32) {
    throw Error(ErrorCode::unsupported,
                text("tensor ", entry.name, " has type ", dtype_name(tensor.dtype),
                     ", norms and biases must be F32"),
                where, "quantise again with llama-quantize, which keeps vectors in F32");
  }
  if (is_vector) check_finite(file_, tensor, where);
  if (!is_vector && !backend.supports(entry.op, tensor.dtype)) {
    throw Error(
        ErrorCode::unsupported,
        text("tensor ", entry.name, " has type ", dtype_name(tensor.dtype), ", which backend ",
             backend.device().backend, " cannot use for ", op_name(entry.op)),
        where, "quantise the model to a supported type, such as Q4_K_M, with llama-quantize");
  }
}

void WeightPlan::check_unplanned(const TensorInfo& tensor, const Log& log) const {
  const std::string where = text(file_.path().string(), ", tensor ", tensor.name);
  const auto layer = layer_of(tensor.name);
  if (layer && *layer >= hp_.info.n_layers) {
    throw Error(ErrorCode::bad_file,
                text("tensor ", tensor.name, " belongs to layer ", *layer, ", ", architecture_,
                     ".block_count says ", hp_.info.n_layers, " layers"),
                where, "convert the model again");
  }
  if (const auto reason = refusal_of(tensor.name); !reason.empty()) {
    throw Error(ErrorCode::unsupported,
                text("architecture ", architecture_, " has no tensor ", tensor.name, ": ", reason),
                where, "convert the model with llama.cpp's convert_hf_to_gguf.py");
  }
  if (tensor.name == "rope_freqs.weight") {
    log.info(architecture_, "rope_freqs.weight is not applied, as in llama.cpp");
    return;
  }
  log.warning(architecture_, text("tensor ", tensor.name, " is not used by this architecture"));
}

void WeightPlan::import_weights(const std::shared_ptr<const GgufFile>& file, Backend& backend,
                                const LoadProgress& progress) const {
  std::vector<const Entry*> present;
  for (const Entry& entry : entries_) {
    if (entry.tensor != nullptr) present.push_back(&entry);
  }
  std::sort(present.begin(), present.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->tensor->part, a->tensor->offset) <
           std::pair(b->tensor->part, b->tensor->offset);
  });
  // A tied table is taken twice, by row and as the output; its bytes count once.
  const auto counted = [&](const Entry& entry) {
    return hp_.tied_output && entry.op == Op::embed ? 0 : entry.tensor->bytes;
  };
  std::uint64_t total = 0;
  for (const Entry* entry : present) total += counted(*entry);
  std::uint64_t done = 0;
  for (const Entry* entry : present) {
    *entry->slot = backend.import_weight(file, *entry->tensor, entry->role);
    done += counted(*entry);
    if (progress) progress(done, total);
  }
}

}  // namespace dllm::model_common
