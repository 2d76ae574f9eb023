// Model: weights of one network and one device-free forward pass.
//
//   auto model = factory.load(file, backend, log, {});
//   model->reserve({.max_tokens = 160,
//                   .max_score_rows = 128,
//                   .max_sequences = 1,
//                   .max_sequence_length = 160});
//   model->forward_stats(batch, requests, stats);
//
// A model is a plugin (plugins/model_*). It writes its forward once in Backend ops and knows no
// device and no decoding rule. Samplers ask for positions; which row scores a position (Dream's
// shift: position i is scored by row i - 1) is the model's business.
// Thread rule: one thread per Model object and its Backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/backend.hpp"
#include "dllm/gguf.hpp"
#include "dllm/head_stats.hpp"
#include "dllm/log.hpp"

namespace dllm {

/// What a model publishes about itself; known from metadata alone.
struct ModelInfo {
  std::string architecture;  ///< "llada"
  std::string name;          ///< general.name, or empty
  std::uint32_t n_layers = 0;
  std::uint32_t width = 0;
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t ffn_length = 0;
  std::uint32_t n_vocab = 0;  ///< rows of the output matrix
  std::uint32_t context_length = 0;
  bool shift_logits = false;  ///< position i is scored by row max(i - 1, 0)
  MaskKind mask = MaskKind::full;
  std::uint32_t trained_block_length = 0;  ///< 0: none
  std::string recommended_sampler;         ///< sampler plugin id
};

/// Cache use of a sequence. Only the default (no cache) is built; anything else is refused by name.
struct CacheUse {
  std::uint32_t handle = 0;
  bool read = false;
  bool write = false;
};

/// One sequence of the ragged pack: tokens [begin, begin + length) of ForwardBatch::ids.
struct SequenceSlice {
  std::uint32_t begin = 0;
  std::uint32_t length = 0;
  MaskKind mask = MaskKind::full;
  CacheUse cache;
};

/// All sequences of one step. Spans are borrowed for the call.
struct ForwardBatch {
  std::span<const std::int32_t> ids;        ///< token ids, packed
  std::span<const std::int32_t> positions;  ///< rope position of each token
  std::span<const SequenceSlice> sequences;
  /// Packed token index of every canvas position to score; the order is the order of answer rows.
  /// The model maps an index to the row that scores it, inside its own sequence.
  std::span<const std::uint32_t> score;
  bool raw_rows = false;  ///< score names rows themselves: no shift (dllm logits)
};

/// The most a step will bring; see Model::reserve.
struct BatchLimits {
  std::uint32_t max_tokens = 0;
  std::uint32_t max_score_rows = 0;
  std::uint32_t max_sequences = 0;
  std::uint32_t max_sequence_length = 0;
};

class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  /// Allocates everything a step within the limits needs; a forward allocates nothing. Called again
  /// for other limits, and after a failure. Throws Error (resource).
  virtual void reserve(const BatchLimits& limits) = 0;
  /// One forward, then statistics of the scored rows. Throws Error (unsupported) for mask kinds and
  /// cache uses that are not built.
  virtual void forward_stats(const ForwardBatch& batch, std::span<const StatsRequest> requests,
                             HeadStats& stats) = 0;
  /// One forward, then whole logits: out[i * n_vocab + v] for score[i].
  virtual void forward_logits(const ForwardBatch& batch, std::span<float> out) = 0;
  /// Whole logits of the rows of the last forward_stats, without another forward: out[i * n_vocab +
  /// v] for its score[i]. For samplers that take them; as it stands it refuses, Error
  /// (unsupported).
  virtual void last_logits(std::span<float> out);
};

/// Called during load with bytes done and in all.
using LoadProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// What a model plugin's entry returns; lives as long as the process.
class ModelFactory {
 public:
  virtual ~ModelFactory() = default;
  /// Values of general.architecture it accepts.
  virtual std::span<const std::string_view> architectures() const = 0;
  /// Hyper-parameters from metadata and tensor shapes, all checked; reads no weights.
  virtual ModelInfo describe(const GgufFile& file) const = 0;
  /// Imports every weight. Throws Error naming tensor and both shapes on a mismatch.
  virtual std::unique_ptr<Model> load(std::shared_ptr<const GgufFile> file, Backend& backend,
                                      const Log& log, const LoadProgress& progress) const = 0;
};

}  // namespace dllm
