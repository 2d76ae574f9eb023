// What a model file must hold, what it may leave out, and what is refused in which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dllm/error.hpp"
#include "model_common/transformer.hpp"
#include "recording_backend.hpp"
#include "tiny_file.hpp"

namespace dllm::model_common {
namespace {

using test::RecordingBackend;
using test::TinyFile;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Architecture kLlada{"llada", RopeKind::norm, false, false, "llada"};
constexpr Architecture kDream{"dream", RopeKind::neox, true, true, "dream"};

const Architecture& architecture(const std::string& name) {
  return name == "dream" ? kDream : kLlada;
}

struct Loading {
  ModelInfo info;
  std::vector<std::string> log;
  std::string error;
  ErrorCode code = ErrorCode::internal;
};

Loading load(const TinyFile& file, RecordingBackend& backend, const std::string& arch) {
  Loading result;
  const Log log([&](LogLevel level, std::string_view, std::string_view message) {
    result.log.push_back((level == LogLevel::warning ? "warning: " : "info: ") +
                         std::string(message));
  });
  try {
    const TransformerFactory factory(architecture(arch));
    const auto gguf = file.open();
    result.info = factory.describe(*gguf);
    factory.load(gguf, backend, log, {});
  } catch (const Error& error) {
    result.error = error.what();
    result.code = error.code();
  }
  return result;
}

Loading load(const TinyFile& file, const std::string& arch) {
  RecordingBackend backend;
  return load(file, backend, arch);
}

// ---- faults ----------------------------------------------------------------------------------

struct Fault {
  const char* name;
  const char* arch;
  std::function<void(TinyFile&)> break_it;
  ErrorCode code;
  std::vector<std::string> fragments;  ///< all must be in the message
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class LoadingFault : public ::testing::TestWithParam<Fault> {};

TEST_P(LoadingFault, IsNamedBeforeAnythingIsImported) {
  const Fault& fault = GetParam();
  TinyFile file(fault.arch);
  fault.break_it(file);
  RecordingBackend backend;
  const Loading result = load(file, backend, fault.arch);
  ASSERT_NE(result.error, "");
  EXPECT_EQ(result.code, fault.code) << result.error;
  for (const auto& fragment : fault.fragments) EXPECT_THAT(result.error, HasSubstr(fragment));
  EXPECT_THAT(result.error, HasSubstr("model.gguf"));
  EXPECT_THAT(result.error, HasSubstr("Fix: "));
  EXPECT_THAT(backend.imports, IsEmpty());
}

std::function<void(TinyFile&)> key(std::string name, TinyFile::Value value) {
  return [=](TinyFile& file) { file.keys[name] = value; };
}
std::function<void(TinyFile&)> without_key(std::string name) {
  return [=](TinyFile& file) { file.keys.erase(name); };
}
std::function<void(TinyFile&)> tensor(std::string name, TinyFile::Tensor value) {
  return [=](TinyFile& file) { file.tensors[name] = value; };
}

const auto kBadFile = ErrorCode::bad_file;
const auto kUnsupported = ErrorCode::unsupported;

INSTANTIATE_TEST_SUITE_P(
    HyperParameters, LoadingFault,
    ::testing::Values(
        Fault{"no_layers",
              "llada",
              key("llada.block_count", TinyFile::u32(0)),
              kBadFile,
              {"llada.block_count is 0", "1 to 512"}},
        Fault{"too_many_layers",
              "llada",
              key("llada.block_count", TinyFile::u32(513)),
              kBadFile,
              {"llada.block_count is 513"}},
        Fault{"missing_width",
              "llada",
              without_key("llada.embedding_length"),
              kBadFile,
              {"llada.embedding_length"}},
        Fault{"missing_ffn",
              "dream",
              without_key("dream.feed_forward_length"),
              kBadFile,
              {"dream.feed_forward_length"}},
        Fault{"missing_context",
              "dream",
              without_key("dream.context_length"),
              kBadFile,
              {"dream.context_length"}},
        Fault{"missing_eps",
              "dream",
              without_key("dream.attention.layer_norm_rms_epsilon"),
              kBadFile,
              {"dream.attention.layer_norm_rms_epsilon"}},
        Fault{"eps_zero",
              "llada",
              key("llada.attention.layer_norm_rms_epsilon", TinyFile::f32(0)),
              kBadFile,
              {"llada.attention.layer_norm_rms_epsilon is 0"}},
        Fault{"eps_nan",
              "llada",
              key("llada.attention.layer_norm_rms_epsilon", TinyFile::f32(NAN)),
              kBadFile,
              {"layer_norm_rms_epsilon is nan"}},
        Fault{"theta_negative",
              "llada",
              key("llada.rope.freq_base", TinyFile::f32(-1)),
              kBadFile,
              {"llada.rope.freq_base is -1"}},
        Fault{"no_heads",
              "llada",
              key("llada.attention.head_count", TinyFile::u32(0)),
              kBadFile,
              {"llada.attention.head_count is 0"}},
        Fault{"kv_heads_do_not_divide",
              "dream",
              key("dream.attention.head_count_kv", TinyFile::u32(3)),
              kBadFile,
              {"head_count 4", "head_count_kv 3"}},
        Fault{"varying_heads",
              "dream",
              key("dream.attention.head_count", TinyFile::array<std::uint32_t>({4, 2})),
              kUnsupported,
              {"dream.attention.head_count"}},
        Fault{"width_not_divisible",
              "llada",
              [](TinyFile& file) {
                file.keys["llada.attention.head_count"] = TinyFile::u32(3);
                file.keys["llada.attention.head_count_kv"] = TinyFile::u32(3);
              },
              kBadFile,
              {"embedding_length 32", "head_count 3", "key_length"}},
        Fault{"odd_head_dim",
              "llada",
              key("llada.attention.key_length", TinyFile::u32(7)),
              kBadFile,
              {"head dimension 7 must be even"}},
        Fault{"value_length_differs",
              "dream",
              key("dream.attention.value_length", TinyFile::u32(16)),
              kUnsupported,
              {"value_length 16", "key length 8"}},
        Fault{"rope_beyond_head",
              "llada",
              key("llada.rope.dimension_count", TinyFile::u32(10)),
              kBadFile,
              {"dimension_count 10", "head dimension 8"}},
        Fault{"rope_odd",
              "llada",
              key("llada.rope.dimension_count", TinyFile::u32(5)),
              kBadFile,
              {"dimension_count 5"}},
        Fault{"rope_yarn",
              "dream",
              key("dream.rope.scaling.type", TinyFile::string("yarn")),
              kUnsupported,
              {"\"yarn\"", "none, linear", "dream.rope.scaling.type"}},
        Fault{"rope_factor_negative",
              "dream",
              key("dream.rope.scaling.factor", TinyFile::f32(-2)),
              kBadFile,
              {"dream.rope.scaling.factor is -2"}},
        Fault{"experts",
              "llada",
              key("llada.expert_count", TinyFile::u32(8)),
              kUnsupported,
              {"llada.expert_count", "mixture of experts", "value 8"}},
        Fault{"sliding_window",
              "dream",
              key("dream.attention.sliding_window", TinyFile::u32(4096)),
              kUnsupported,
              {"dream.attention.sliding_window", "windowed attention"}},
        Fault{"logit_scale",
              "llada",
              key("llada.logit_scale", TinyFile::f32(0.25F)),
              kUnsupported,
              {"llada.logit_scale", "value 0.25"}},
        Fault{"more_tokens_than_rows",
              "llada",
              key("tokenizer.ggml.tokens", TinyFile::array(std::vector<std::string>(41, "x"))),
              kBadFile,
              {"41 tokens", "40 rows", "tokenizer.ggml.tokens"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tensors, LoadingFault,
    ::testing::Values(Fault{"missing_embedding",
                            "llada",
                            [](TinyFile& file) { file.tensors.erase("token_embd.weight"); },
                            kBadFile,
                            {"token_embd.weight"}},
                      Fault{"missing_matrix",
                            "dream",
                            [](TinyFile& file) { file.tensors.erase("blk.1.attn_v.weight"); },
                            kBadFile,
                            {"tensor blk.1.attn_v.weight is missing"}},
                      Fault{
                          "missing_bias_of_several",
                          "dream",
                          [](TinyFile& file) { file.tensors.erase("blk.1.attn_k.bias"); },
                          kBadFile,
                          {"tensor blk.1.attn_k.bias is missing, but blk.0.attn_q.bias is there"}},
                      Fault{"embedding_width",
                            "llada",
                            tensor("token_embd.weight", {{64, 40}}),
                            kBadFile,
                            {"token_embd.weight has shape [64, 40]", "[32, vocabulary]"}},
                      Fault{"output_rows",
                            "llada",
                            tensor("output.weight", {{32, 41}}),
                            kBadFile,
                            {"output.weight has shape [32, 41], expected [32, 40]"}},
                      Fault{"matrix_shape",
                            "dream",
                            tensor("blk.0.attn_k.weight", {{32, 32}}),
                            kBadFile,
                            {"blk.0.attn_k.weight has shape [32, 32], expected [32, 16]"}},
                      Fault{"transposed_ffn",
                            "llada",
                            tensor("blk.1.ffn_down.weight", {{32, 48}}),
                            kBadFile,
                            {"blk.1.ffn_down.weight has shape [32, 48], expected [48, 32]"}},
                      Fault{"norm_rank",
                            "llada",
                            tensor("blk.0.attn_norm.weight", {{32, 1}}),
                            kBadFile,
                            {"blk.0.attn_norm.weight has shape [32, 1], expected [32]"}},
                      Fault{"bias_shape",
                            "dream",
                            tensor("blk.0.attn_q.bias", {{16}}),
                            kBadFile,
                            {"blk.0.attn_q.bias has shape [16], expected [32]"}},
                      Fault{"norm_type",
                            "llada",
                            tensor("output_norm.weight", {{32}, DType::f16}),
                            kUnsupported,
                            {"output_norm.weight has type F16", "F32"}},
                      Fault{"norm_nan",
                            "llada",
                            tensor("blk.1.ffn_norm.weight", {{32}, DType::f32, NAN}),
                            kBadFile,
                            {"blk.1.ffn_norm.weight holds nan at 0"}},
                      Fault{"layer_beyond_count",
                            "llada",
                            tensor("blk.2.attn_norm.weight", {{32}}),
                            kBadFile,
                            {"blk.2.attn_norm.weight belongs to layer 2", "block_count says 2"}},
                      Fault{"fused_qkv",
                            "dream",
                            tensor("blk.0.attn_qkv.weight", {{32, 64}}),
                            kUnsupported,
                            {"blk.0.attn_qkv.weight", "fused"}},
                      Fault{"qk_norm",
                            "llada",
                            tensor("blk.0.attn_q_norm.weight", {{8}}),
                            kUnsupported,
                            {"blk.0.attn_q_norm.weight", "norm"}},
                      Fault{"llada_bias",
                            "llada",
                            tensor("blk.0.attn_q.bias", {{32}}),
                            kUnsupported,
                            {"blk.0.attn_q.bias", "bias"}},
                      Fault{"output_bias",
                            "dream",
                            tensor("output.bias", {{40}}),
                            kUnsupported,
                            {"output.bias", "bias"}},
                      Fault{"expert_tensor",
                            "llada",
                            tensor("blk.0.ffn_gate_exps.weight", {{32, 48, 4}}),
                            kUnsupported,
                            {"blk.0.ffn_gate_exps.weight", "experts"}}),
    [](const auto& info) { return info.param.name; });

TEST(LoadingModels, NamesTensorAndTypeTheBackendCannotUse) {
  TinyFile file("llada");
  file.tensors["blk.1.ffn_up.weight"].dtype = DType::f16;
  RecordingBackend backend;
  backend.unsupported = {DType::f16};
  const Loading result = load(file, backend, "llada");
  EXPECT_EQ(result.code, ErrorCode::unsupported);
  EXPECT_THAT(result.error, HasSubstr("blk.1.ffn_up.weight has type F16"));
  EXPECT_THAT(result.error, HasSubstr("backend recording"));
  EXPECT_THAT(backend.imports, IsEmpty());
}

TEST(LoadingModels, AsksForRoomForAllTensorsBeforeTheFirstImport) {
  TinyFile file("llada");
  RecordingBackend roomy;
  EXPECT_EQ(load(file, roomy, "llada").error, "");
  EXPECT_THAT(roomy.imports, testing::Not(IsEmpty()));
  RecordingBackend backend;
  backend.room_bytes = 1000;
  const Loading result = load(file, backend, "llada");
  EXPECT_EQ(result.code, ErrorCode::resource);
  EXPECT_THAT(result.error, HasSubstr("needs "));
  EXPECT_THAT(backend.imports, IsEmpty());
}

// ---- what may be left out --------------------------------------------------------------------

TEST(LoadingModels, PublishesWhatTheMetadataSays) {
  TinyFile file("dream");
  file.keys["general.name"] = TinyFile::string("Tiny");
  const ModelInfo info = load(file, "dream").info;
  EXPECT_EQ(info.architecture, "dream");
  EXPECT_EQ(info.name, "Tiny");
  EXPECT_EQ(info.n_layers, 2U);
  EXPECT_EQ(info.width, 32U);
  EXPECT_EQ(info.n_heads, 4U);
  EXPECT_EQ(info.n_kv_heads, 2U);
  EXPECT_EQ(info.head_dim, 8U);
  EXPECT_EQ(info.ffn_length, 48U);
  EXPECT_EQ(info.n_vocab, 40U);
  EXPECT_EQ(info.context_length, 64U);
  EXPECT_EQ(info.mask, MaskKind::full);
  EXPECT_EQ(info.recommended_sampler, "dream");
}

TEST(LoadingModels, ShiftComesFromTheKeyElseFromTheArchitecture) {
  for (const std::string arch : {"llada", "dream"}) {
    TinyFile file(arch);
    EXPECT_EQ(load(file, arch).info.shift_logits, arch == "dream");
    for (const bool shift : {false, true}) {
      file.keys["diffusion.shift_logits"] = TinyFile::boolean(shift);
      EXPECT_EQ(load(file, arch).info.shift_logits, shift) << arch;
    }
  }
}

TEST(LoadingModels, MissingKvHeadCountMeansHeadCount) {
  TinyFile file("llada");
  file.keys.erase("llada.attention.head_count_kv");
  for (const char* name : {"attn_k.weight", "attn_v.weight"}) {
    for (const char* layer : {"blk.0.", "blk.1."}) {
      file.tensors[std::string(layer) + name] = {{32, 32}};
    }
  }
  const Loading result = load(file, "llada");
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.info.n_kv_heads, 4U);
}

TEST(LoadingModels, KeyLengthMayDifferFromWidthOverHeads) {
  TinyFile file("llada");
  file.keys["llada.attention.key_length"] = TinyFile::u32(16);
  file.keys["llada.attention.value_length"] = TinyFile::u32(16);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    file.tensors[layer + "attn_q.weight"] = {{32, 64}};
    file.tensors[layer + "attn_k.weight"] = {{32, 32}};
    file.tensors[layer + "attn_v.weight"] = {{32, 32}};
    file.tensors[layer + "attn_output.weight"] = {{64, 32}};
  }
  const Loading result = load(file, "llada");
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.info.head_dim, 16U);
}

TEST(LoadingModels, UniformArraysAndOtherIntegerWidthsServeAsNumbers) {
  TinyFile file("dream");
  file.keys["dream.attention.head_count_kv"] = TinyFile::array<std::int32_t>({2, 2});
  file.keys["dream.feed_forward_length"] = TinyFile::array<std::uint64_t>({48, 48});
  file.keys["dream.block_count"] = TinyFile::scalar<std::uint64_t>(2);
  file.keys["dream.embedding_length"] = TinyFile::scalar<std::int16_t>(32);
  EXPECT_EQ(load(file, "dream").error, "");
}

TEST(LoadingModels, FewerTokensThanRowsAndAnyVocabSizeKeyLoad) {
  TinyFile file("llada");
  file.keys["llada.vocab_size"] = TinyFile::u32(30);
  file.keys["tokenizer.ggml.tokens"] = TinyFile::array(std::vector<std::string>(35, "x"));
  const Loading result = load(file, "llada");
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.info.n_vocab, 40U);
}

TEST(LoadingModels, NeutralValuesOfUnbuiltKeysLoad) {
  TinyFile file("llada");
  file.keys["llada.expert_count"] = TinyFile::u32(0);
  file.keys["llada.logit_scale"] = TinyFile::f32(1);
  file.keys["llada.rope.scaling.type"] = TinyFile::string("none");
  EXPECT_EQ(load(file, "llada").error, "");
}

TEST(LoadingModels, DreamWithoutBiasesLoads) {
  TinyFile file("dream");
  std::erase_if(file.tensors, [](const auto& entry) { return entry.first.ends_with(".bias"); });
  EXPECT_EQ(load(file, "dream").error, "");
}

TEST(LoadingModels, LogsWhatItIgnores) {
  TinyFile file("llada");
  file.keys["llada.attention.causal"] = TinyFile::boolean(true);
  file.tensors["rope_freqs.weight"] = {{4}};
  file.tensors["visual.weight"] = {{4}};
  const Loading result = load(file, "llada");
  EXPECT_EQ(result.error, "");
  EXPECT_THAT(result.log, Contains(HasSubstr("info: rope_freqs.weight is not applied")));
  EXPECT_THAT(result.log, Contains(HasSubstr("warning: tensor visual.weight is not used")));
  EXPECT_THAT(result.log, Contains(HasSubstr("warning: llada.attention.causal is true")));
}

// ---- import ----------------------------------------------------------------------------------

TEST(LoadingModels, ImportsEveryTensorOnceInFileOrderWithItsRole) {
  TinyFile file("dream");
  RecordingBackend backend;
  ASSERT_EQ(load(file, backend, "dream").error, "");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);  // written in this order
  ASSERT_EQ(backend.imports.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_THAT(backend.imports[i], HasSubstr(names[i] + " "));
  }
  for (const char* expected :
       {"token_embd.weight embedding", "output.weight column_split",
        "output_norm.weight replicated", "blk.0.attn_q.weight head_split",
        "blk.0.attn_q.bias head_split", "blk.0.attn_output.weight row_split",
        "blk.1.ffn_up.weight column_split", "blk.1.ffn_down.weight row_split"}) {
    EXPECT_THAT(backend.imports, Contains(expected));
  }
}

TEST(LoadingModels, TiedOutputTakesTheEmbeddingTableForBothUses) {
  TinyFile file("llada");
  file.tensors.erase("output.weight");
  RecordingBackend backend;
  ASSERT_EQ(load(file, backend, "llada").error, "");
  EXPECT_THAT(backend.imports, Contains("token_embd.weight embedding"));
  EXPECT_THAT(backend.imports, Contains("token_embd.weight column_split"));
}

TEST(LoadingModels, ProgressEndsAtTheBytesOfAllTensors) {
  for (const bool tied : {false, true}) {
    TinyFile file("llada");
    if (tied) file.tensors.erase("output.weight");
    const auto gguf = file.open();
    std::uint64_t expected = 0;
    for (const TensorInfo& tensor : gguf->tensors()) expected += tensor.bytes;
    std::uint64_t last = 0, total = 0;
    RecordingBackend backend;
    const TransformerFactory factory(kLlada);
    factory.load(gguf, backend, Log(), [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_GE(done, last);
      last = done;
      total = all;
    });
    EXPECT_EQ(last, expected);
    EXPECT_EQ(total, expected);
  }
}

}  // namespace
}  // namespace dllm::model_common
