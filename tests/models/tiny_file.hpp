// A small well-formed model file whose every key and tensor a test can change before it is written.
//
//   TinyFile file("dream");
//   file.keys["dream.attention.head_count_kv"] = TinyFile::u32(3);
//   file.tensors.erase("blk.1.attn_v.weight");
//   auto gguf = file.open();
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dllm/gguf.hpp"
#include "gguf_writer.hpp"

namespace dllm::test {

struct TinyFile {
  /// Adds the value to a writer under a key.
  using Value = std::function<void(GgufWriter&, const std::string&)>;
  struct Tensor {
    std::vector<std::uint64_t> shape;
    DType dtype = DType::f32;
    float fill = 0.5F;  ///< of F32 tensors; others are zero bytes
  };

  static constexpr std::uint32_t kLayers = 2, kWidth = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8,
                                 kFfn = 48, kVocab = 40;

  template <typename T>
  static Value scalar(T value) {
    return [value](GgufWriter& writer, const std::string& key) { writer.set(key, value); };
  }
  static Value u32(std::uint32_t value) { return scalar(value); }
  static Value f32(float value) { return scalar(value); }
  static Value boolean(bool value) { return scalar(value); }
  static Value string(std::string value) { return scalar(std::move(value)); }
  template <typename T>
  static Value array(std::vector<T> values) {
    return [values](GgufWriter& writer, const std::string& key) { writer.set_array(key, values); };
  }

  explicit TinyFile(const std::string& arch) {
    const auto key = [&](const char* suffix) { return arch + "." + suffix; };
    keys = {{"general.architecture", string(arch)},
            {key("block_count"), u32(kLayers)},
            {key("embedding_length"), u32(kWidth)},
            {key("context_length"), u32(64)},
            {key("feed_forward_length"), u32(kFfn)},
            {key("attention.head_count"), u32(kHeads)},
            {key("attention.head_count_kv"), u32(kKvHeads)},
            {key("attention.layer_norm_rms_epsilon"), f32(1e-5F)},
            {key("rope.freq_base"), f32(10000)},
            {"tokenizer.ggml.tokens", array(std::vector<std::string>(kVocab, "x"))}};
    tensors = {{"token_embd.weight", {{kWidth, kVocab}}},
               {"output_norm.weight", {{kWidth}}},
               {"output.weight", {{kWidth, kVocab}}}};
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) add_layer(layer, arch == "dream");
  }

  /// Reads the file back; `folder` keeps it until the object ends.
  std::shared_ptr<const GgufFile> open() const {
    GgufWriter writer;
    for (const auto& [key, value] : keys) value(writer, key);
    for (const auto& [name, tensor] : tensors) add_tensor(writer, name, tensor);
    writer.write(folder.path() / "model.gguf");
    return GgufFile::open(folder.path() / "model.gguf");
  }

  std::map<std::string, Value> keys;
  std::map<std::string, Tensor> tensors;
  TemporaryDirectory folder;

 private:
  void add_layer(std::uint32_t layer, bool bias) {
    const std::string at = "blk." + std::to_string(layer) + ".";
    const std::uint64_t q = kHeads * kHeadDim, kv = kKvHeads * kHeadDim;
    tensors[at + "attn_norm.weight"] = {{kWidth}};
    tensors[at + "attn_q.weight"] = {{kWidth, q}};
    tensors[at + "attn_k.weight"] = {{kWidth, kv}};
    tensors[at + "attn_v.weight"] = {{kWidth, kv}};
    tensors[at + "attn_output.weight"] = {{q, kWidth}};
    tensors[at + "ffn_norm.weight"] = {{kWidth}};
    tensors[at + "ffn_gate.weight"] = {{kWidth, kFfn}};
    tensors[at + "ffn_up.weight"] = {{kWidth, kFfn}};
    tensors[at + "ffn_down.weight"] = {{kFfn, kWidth}};
    if (!bias) return;
    tensors[at + "attn_q.bias"] = {{q}};
    tensors[at + "attn_k.bias"] = {{kv}};
    tensors[at + "attn_v.bias"] = {{kv}};
  }

  static void add_tensor(GgufWriter& writer, const std::string& name, const Tensor& tensor) {
    if (tensor.dtype != DType::f32) {
      writer.add_zeros(name, tensor.dtype, tensor.shape);
      return;
    }
    std::uint64_t n = 1;
    for (const std::uint64_t size : tensor.shape) n *= size;
    writer.add_tensor(name, DType::f32, tensor.shape, std::vector<float>(n, tensor.fill));
  }
};

}  // namespace dllm::test
