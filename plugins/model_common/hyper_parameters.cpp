#include "model_common/hyper_parameters.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "dllm/error.hpp"
#include "model_common/text.hpp"

namespace dllm::model_common {
namespace {

// Limits far above any known model; they keep every product of two of them inside 32 bits.
constexpr std::uint32_t kMaxLayers = 512;  // as llama.cpp
constexpr std::uint32_t kMaxWidth = 1u << 20;
constexpr std::uint32_t kMaxFfn = 1u << 22;
constexpr std::uint32_t kMaxHeads = 1u << 12;
constexpr std::uint32_t kMaxHeadDim = 1u << 10;
constexpr std::uint32_t kMaxContext = 1u << 30;
constexpr std::uint64_t kMaxVocab = 1u << 26;

constexpr std::string_view kConvertAgain =
    "convert the model again with llama.cpp's convert_hf_to_gguf.py";

/// Keys that would change the forward pass in a way this code does not compute. `neutral` is the
/// value that changes nothing.
struct UnbuiltKey {
  std::string_view suffix;
  double neutral;
  std::string_view meaning;
};
constexpr std::array kUnbuiltKeys = {
    UnbuiltKey{"expert_count", 0, "a mixture of experts"},
    UnbuiltKey{"expert_used_count", 0, "a mixture of experts"},
    UnbuiltKey{"attention.sliding_window", 0, "windowed attention"},
    UnbuiltKey{"attn_logit_softcapping", 0, "capped attention scores"},
    UnbuiltKey{"final_logit_softcapping", 0, "capped logits"},
    UnbuiltKey{"attention.clamp_kqv", 0, "clamped projections"},
    UnbuiltKey{"attention.max_alibi_bias", 0, "ALiBi"},
    UnbuiltKey{"logit_scale", 1, "scaled logits"},
    UnbuiltKey{"embedding_scale", 1, "scaled embeddings"},
    UnbuiltKey{"residual_scale", 1, "scaled residuals"},
};

/// Reads `<architecture>.<suffix>` keys and says where a bad one was.
class KeyReader {
 public:
  KeyReader(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(text(architecture, ".")) {}

  std::string key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  std::string where(std::string_view full_key) const {
    return text(file_.path().string(), ", key ", full_key);
  }
  [[noreturn]] void refuse(std::string fact, std::string_view suffix,
                           ErrorCode code = ErrorCode::bad_file,
                           std::string_view fix = kConvertAgain) const {
    throw Error(code, std::move(fact), where(key(suffix)), std::string(fix));
  }

  std::uint32_t count(std::string_view suffix, std::uint32_t max) const {
    return in_range(file_.get_u32(key(suffix)), suffix, max);
  }
  std::optional<std::uint32_t> find_count(std::string_view suffix, std::uint32_t max) const {
    const auto value = file_.find_u32(key(suffix));
    if (!value) return std::nullopt;
    return in_range(*value, suffix, max);
  }
  /// A scalar, or one value for all layers given as an array.
  std::optional<std::uint32_t> find_layer_count(std::string_view suffix, std::uint32_t n_layers,
                                                std::uint32_t max) const {
    const auto value = file_.find_u32_or_uniform_array(key(suffix), n_layers);
    if (!value) return std::nullopt;
    return in_range(*value, suffix, max);
  }
  std::uint32_t layer_count(std::string_view suffix, std::uint32_t n_layers,
                            std::uint32_t max) const {
    const auto value = find_layer_count(suffix, n_layers, max);
    if (!value) refuse(text("key ", key(suffix), " is missing"), suffix);
    return *value;
  }
  double positive(std::string_view suffix, double value) const {
    if (!std::isfinite(value) || value <= 0) {
      refuse(text(key(suffix), " is ", value, ", must be finite and above 0"), suffix);
    }
    return value;
  }

  const GgufFile& file() const { return file_; }

 private:
  std::uint32_t in_range(std::uint32_t value, std::string_view suffix, std::uint32_t max) const {
    if (value < 1 || value > max) {
      refuse(text(key(suffix), " is ", value, ", must be 1 to ", max), suffix);
    }
    return value;
  }

  const GgufFile& file_;
  std::string prefix_;
};

double numeric(const MetadataEntry& entry) {
  if (const auto* i = std::get_if<std::int64_t>(&entry.value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&entry.value)) return static_cast<double>(*u);
  if (const auto* d = std::get_if<double>(&entry.value)) return *d;
  return std::nan("");  // arrays and texts are never neutral
}

void refuse_unbuilt_keys(const KeyReader& keys) {
  for (const auto& unbuilt : kUnbuiltKeys) {
    const auto* entry = keys.file().find(keys.key(unbuilt.suffix));
    if (entry == nullptr) continue;
    const double value = numeric(*entry);
    if (value == unbuilt.neutral || value == 0) continue;
    keys.refuse(text(entry->key, " asks for ", unbuilt.meaning, " (value ",
                     std::isnan(value) ? "not a number" : text(value),
                     "), which this architecture's plugin does not compute"),
                unbuilt.suffix, ErrorCode::unsupported,
                "use a dense checkpoint of this architecture");
  }
}

void read_heads(const KeyReader& keys, ModelInfo& info) {
  info.n_heads = keys.layer_count("attention.head_count", info.n_layers, kMaxHeads);
  info.n_kv_heads = keys.find_layer_count("attention.head_count_kv", info.n_layers, kMaxHeads)
                        .value_or(info.n_heads);
  if (info.n_heads % info.n_kv_heads != 0) {
    keys.refuse(
        text("head_count ", info.n_heads, " is no multiple of head_count_kv ", info.n_kv_heads),
        "attention.head_count_kv");
  }
  if (const auto length = keys.find_count("attention.key_length", kMaxHeadDim)) {
    info.head_dim = *length;
  } else {
    if (info.width % info.n_heads != 0) {
      keys.refuse(text("embedding_length ", info.width, " is no multiple of head_count ",
                       info.n_heads, " and key_length is absent"),
                  "attention.key_length");
    }
    info.head_dim = info.width / info.n_heads;
  }
  if (info.head_dim % 2 != 0 || info.head_dim > kMaxHeadDim) {
    keys.refuse(text("head dimension ", info.head_dim, " must be even and at most ", kMaxHeadDim),
                "attention.key_length");
  }
  const auto value_length = keys.find_count("attention.value_length", kMaxHeadDim);
  if (value_length && *value_length != info.head_dim) {
    keys.refuse(text("value_length ", *value_length, " differs from the key length ", info.head_dim,
                     ", which is not supported"),
                "attention.value_length", ErrorCode::unsupported,
                "use a model whose keys and values have one length");
  }
}

/// The linear scaling factor; every other kind of scaling is refused by name.
double read_rope_factor(const KeyReader& keys) {
  const GgufFile& file = keys.file();
  const auto type = file.find_string(keys.key("rope.scaling.type")).value_or("linear");
  if (type == "none") return 1;
  if (type != "linear") {
    keys.refuse(text("rope scaling type \"", type, "\" is not supported (supported: none, linear)"),
                "rope.scaling.type", ErrorCode::unsupported,
                "use a checkpoint without context extension");
  }
  auto suffix = "rope.scaling.factor";
  auto factor = file.find_float(keys.key(suffix));
  if (!factor) {
    suffix = "rope.scale_linear";
    factor = file.find_float(keys.key(suffix));
  }
  if (!factor || *factor == 0) return 1;
  return keys.positive(suffix, *factor);
}

void read_rope(const KeyReader& keys, HyperParameters& hp) {
  const std::uint32_t head_dim = hp.info.head_dim;
  hp.n_rot = keys.find_count("rope.dimension_count", kMaxHeadDim).value_or(head_dim);
  if (hp.n_rot > head_dim || hp.n_rot % 2 != 0) {
    keys.refuse(text("rope dimension_count ", hp.n_rot,
                     " must be even and at most the head dimension ", head_dim),
                "rope.dimension_count");
  }
  hp.rope_theta = keys.positive("rope.freq_base",
                                keys.file().find_float(keys.key("rope.freq_base")).value_or(10000));
  hp.rope_scale = 1 / read_rope_factor(keys);
}

/// Rows of the embedding table; the tokens array may be shorter (the tail is never produced).
std::uint32_t read_vocab(const KeyReader& keys, std::uint32_t width) {
  const GgufFile& file = keys.file();
  const TensorInfo& table = file.tensor("token_embd.weight");
  const auto where = text(file.path().string(), ", tensor ", table.name);
  if (table.shape.size() != 2 || table.shape[0] != width) {
    throw Error(ErrorCode::bad_file,
                text("tensor ", table.name, " has shape ", table.shape_text(), ", expected [",
                     width, ", vocabulary]"),
                where, std::string(kConvertAgain));
  }
  const std::uint64_t rows = table.shape[1];
  if (rows < 1 || rows > kMaxVocab) {
    throw Error(ErrorCode::bad_file,
                text("tensor ", table.name, " has ", rows, " rows, must be 1 to ", kMaxVocab),
                where, std::string(kConvertAgain));
  }
  const auto* tokens = file.find_array("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->size() > rows) {
    throw Error(ErrorCode::bad_file,
                text("the vocabulary has ", tokens->size(), " tokens, the embedding table only ",
                     rows, " rows"),
                text(file.path().string(), ", key tokenizer.ggml.tokens, tensor ", table.name),
                std::string(kConvertAgain));
  }
  return static_cast<std::uint32_t>(rows);
}

}  // namespace

HyperParameters read_hyper_parameters(const GgufFile& file, const Architecture& architecture) {
  const KeyReader keys(file, architecture.name);
  refuse_unbuilt_keys(keys);

  HyperParameters hp;
  ModelInfo& info = hp.info;
  info.architecture = architecture.name;
  info.name = file.find_string("general.name").value_or("");
  info.n_layers = keys.count("block_count", kMaxLayers);
  info.width = keys.count("embedding_length", kMaxWidth);
  info.context_length = keys.count("context_length", kMaxContext);
  info.ffn_length = keys.layer_count("feed_forward_length", info.n_layers, kMaxFfn);
  read_heads(keys, info);
  read_rope(keys, hp);
  constexpr auto kEpsKey = "attention.layer_norm_rms_epsilon";
  hp.rms_eps = static_cast<float>(keys.positive(kEpsKey, file.get_float(keys.key(kEpsKey))));
  info.n_vocab = read_vocab(keys, info.width);
  info.shift_logits = file.find_bool("diffusion.shift_logits").value_or(architecture.shift_logits);
  info.recommended_sampler = architecture.sampler;
  hp.tied_output = file.find_tensor("output.weight") == nullptr;
  hp.says_causal = file.find_bool(keys.key("attention.causal")).value_or(false);
  return hp;
}

}  // namespace dllm::model_common
