// What a model file may leave out, what the backend is asked first, and what is imported how.
#include "loading.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dllm::test {
namespace {

using model_common::TransformerFactory;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
}  // namespace dllm::test
