// What a model file must hold: each fault is named, in which words, before anything is imported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "loading.hpp"

namespace dllm::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Fault {
  const char* name;
  const char* arch;
  std::function<void(TinyFile&)> break_it;
  ErrorCode code;
  std::vector<std::string> fragments;  ///< all must be in the message
};

Fault fault(const char* name, const char* arch, std::function<void(TinyFile&)> break_it,
            ErrorCode code, std::vector<std::string> fragments) {
  return {name, arch, std::move(break_it), code, std::move(fragments)};
}

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
        fault("no_layers", "llada", key("llada.block_count", TinyFile::u32(0)), kBadFile,
              {"llada.block_count is 0", "1 to 512"}),
        fault("too_many_layers", "llada", key("llada.block_count", TinyFile::u32(513)), kBadFile,
              {"llada.block_count is 513"}),
        fault("missing_width", "llada", without_key("llada.embedding_length"), kBadFile,
              {"llada.embedding_length"}),
        fault("missing_ffn", "dream", without_key("dream.feed_forward_length"), kBadFile,
              {"dream.feed_forward_length"}),
        fault("missing_context", "dream", without_key("dream.context_length"), kBadFile,
              {"dream.context_length"}),
        fault("missing_eps", "dream", without_key("dream.attention.layer_norm_rms_epsilon"),
              kBadFile, {"dream.attention.layer_norm_rms_epsilon"}),
        fault("eps_zero", "llada", key("llada.attention.layer_norm_rms_epsilon", TinyFile::f32(0)),
              kBadFile, {"llada.attention.layer_norm_rms_epsilon is 0"}),
        fault("eps_nan", "llada", key("llada.attention.layer_norm_rms_epsilon", TinyFile::f32(NAN)),
              kBadFile, {"layer_norm_rms_epsilon is nan"}),
        fault("theta_negative", "llada", key("llada.rope.freq_base", TinyFile::f32(-1)), kBadFile,
              {"llada.rope.freq_base is -1"}),
        fault("no_heads", "llada", key("llada.attention.head_count", TinyFile::u32(0)), kBadFile,
              {"llada.attention.head_count is 0"}),
        fault("kv_heads_do_not_divide", "dream",
              key("dream.attention.head_count_kv", TinyFile::u32(3)), kBadFile,
              {"head_count 4", "head_count_kv 3"}),
        fault("varying_heads", "dream",
              key("dream.attention.head_count", TinyFile::array<std::uint32_t>({4, 2})),
              kUnsupported, {"dream.attention.head_count"}),
        fault("width_not_divisible", "llada",
              [](TinyFile& file) {
                file.keys["llada.attention.head_count"] = TinyFile::u32(3);
                file.keys["llada.attention.head_count_kv"] = TinyFile::u32(3);
              },
              kBadFile, {"embedding_length 32", "head_count 3", "key_length"}),
        fault("odd_head_dim", "llada", key("llada.attention.key_length", TinyFile::u32(7)),
              kBadFile, {"head dimension 7 must be even"}),
        fault("value_length_differs", "dream",
              key("dream.attention.value_length", TinyFile::u32(16)), kUnsupported,
              {"value_length 16", "key length 8"}),
        fault("rope_beyond_head", "llada", key("llada.rope.dimension_count", TinyFile::u32(10)),
              kBadFile, {"dimension_count 10", "head dimension 8"}),
        fault("rope_odd", "llada", key("llada.rope.dimension_count", TinyFile::u32(5)), kBadFile,
              {"dimension_count 5"}),
        fault("rope_yarn", "dream", key("dream.rope.scaling.type", TinyFile::string("yarn")),
              kUnsupported, {"\"yarn\"", "none, linear", "dream.rope.scaling.type"}),
        fault("rope_factor_negative", "dream", key("dream.rope.scaling.factor", TinyFile::f32(-2)),
              kBadFile, {"dream.rope.scaling.factor is -2"}),
        fault("experts", "llada", key("llada.expert_count", TinyFile::u32(8)), kUnsupported,
              {"llada.expert_count", "mixture of experts", "value 8"}),
        fault("sliding_window", "dream", key("dream.attention.sliding_window", TinyFile::u32(4096)),
              kUnsupported, {"dream.attention.sliding_window", "windowed attention"}),
        fault("logit_scale", "llada", key("llada.logit_scale", TinyFile::f32(0.25F)), kUnsupported,
              {"llada.logit_scale", "value 0.25"}),
        fault("more_tokens_than_rows", "llada",
              key("tokenizer.ggml.tokens", TinyFile::array(std::vector<std::string>(41, "x"))),
              kBadFile, {"41 tokens", "40 rows", "tokenizer.ggml.tokens"})),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tensors, LoadingFault,
    ::testing::Values(
        fault("missing_embedding", "llada",
              [](TinyFile& file) { file.tensors.erase("token_embd.weight"); }, kBadFile,
              {"token_embd.weight"}),
        fault("missing_matrix", "dream",
              [](TinyFile& file) { file.tensors.erase("blk.1.attn_v.weight"); }, kBadFile,
              {"tensor blk.1.attn_v.weight is missing"}),
        fault("missing_bias_of_several", "dream",
              [](TinyFile& file) { file.tensors.erase("blk.1.attn_k.bias"); }, kBadFile,
              {"tensor blk.1.attn_k.bias is missing, but blk.0.attn_q.bias is there"}),
        fault("embedding_width", "llada", tensor("token_embd.weight", {{64, 40}}), kBadFile,
              {"token_embd.weight has shape [64, 40]", "[32, vocabulary]"}),
        fault("output_rows", "llada", tensor("output.weight", {{32, 41}}), kBadFile,
              {"output.weight has shape [32, 41], expected [32, 40]"}),
        fault("matrix_shape", "dream", tensor("blk.0.attn_k.weight", {{32, 32}}), kBadFile,
              {"blk.0.attn_k.weight has shape [32, 32], expected [32, 16]"}),
        fault("transposed_ffn", "llada", tensor("blk.1.ffn_down.weight", {{32, 48}}), kBadFile,
              {"blk.1.ffn_down.weight has shape [32, 48], expected [48, 32]"}),
        fault("norm_rank", "llada", tensor("blk.0.attn_norm.weight", {{32, 1}}), kBadFile,
              {"blk.0.attn_norm.weight has shape [32, 1], expected [32]"}),
        fault("bias_shape", "dream", tensor("blk.0.attn_q.bias", {{16}}), kBadFile,
              {"blk.0.attn_q.bias has shape [16], expected [32]"}),
        fault("norm_type", "llada", tensor("output_norm.weight", {{32}, DType::f16}), kUnsupported,
              {"output_norm.weight has type F16", "F32"}),
        fault("norm_nan", "llada", tensor("blk.1.ffn_norm.weight", {{32}, DType::f32, NAN}),
              kBadFile, {"blk.1.ffn_norm.weight holds nan at 0"}),
        fault("layer_beyond_count", "llada", tensor("blk.2.attn_norm.weight", {{32}}), kBadFile,
              {"blk.2.attn_norm.weight belongs to layer 2", "block_count says 2"}),
        fault("fused_qkv", "dream", tensor("blk.0.attn_qkv.weight", {{32, 64}}), kUnsupported,
              {"blk.0.attn_qkv.weight", "fused"}),
        fault("qk_norm", "llada", tensor("blk.0.attn_q_norm.weight", {{8}}), kUnsupported,
              {"blk.0.attn_q_norm.weight", "norm"}),
        fault("llada_bias", "llada", tensor("blk.0.attn_q.bias", {{32}}), kUnsupported,
              {"blk.0.attn_q.bias", "bias"}),
        fault("output_bias", "dream", tensor("output.bias", {{40}}), kUnsupported,
              {"output.bias", "bias"}),
        fault("expert_tensor", "llada", tensor("blk.0.ffn_gate_exps.weight", {{32, 48, 4}}),
              kUnsupported, {"blk.0.ffn_gate_exps.weight", "experts"})),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dllm::test
