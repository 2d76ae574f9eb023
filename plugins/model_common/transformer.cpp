#include "model_common/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "dllm/error.hpp"
#include "model_common/text.hpp"

namespace dllm::model_common {
namespace {

void require_room(std::span<const float> out, std::size_t n_rows, std::uint32_t n_vocab) {
  const std::uint64_t wanted = std::uint64_t{n_rows} * n_vocab;
  if (out.size() == wanted) return;
  throw Error(
      ErrorCode::internal,
      text("room for ", out.size(), " logits, ", n_rows, " rows of ", n_vocab, " need ", wanted),
      "Model", "give room for every asked row");
}

}  // namespace

Transformer::Transformer(HyperParameters hp, RopeKind rope, ModelWeights weights, Backend& backend)
    : hp_(std::move(hp)), rope_(rope), weights_(std::move(weights)), backend_(backend) {}

void Transformer::reserve(const BatchLimits& limits) {
  const std::uint32_t tokens = limits.max_tokens;
  const std::uint32_t scored = limits.max_score_rows;
  const std::uint32_t most = std::max(tokens, scored);
  const std::uint32_t spans = StepLayout::max_spans(limits);

  backend_.reserve({.max_tokens = most,
                    .max_score_rows = scored,
                    .max_sequences = limits.max_sequences,
                    .width = hp_.info.width,
                    .max_cols = std::max({hp_.info.width, hp_.q_cols(), hp_.info.ffn_length}),
                    .ffn_cols = hp_.info.ffn_length,
                    .n_vocab = hp_.info.n_vocab,
                    .max_heads = hp_.info.n_heads,
                    .max_sequence_length = limits.max_sequence_length});
  act_ = {};  // give the old ones back first
  act_ = {.hidden = backend_.make_buffer(tokens, hp_.info.width),
          .scored_hidden = backend_.make_buffer(scored, hp_.info.width),
          .q = backend_.make_buffer(most, hp_.q_cols()),
          .k = backend_.make_buffer(tokens, hp_.kv_cols()),
          .v = backend_.make_buffer(tokens, hp_.kv_cols()),
          .attention = backend_.make_buffer(most, hp_.q_cols())};
  lists_ = {};
  lists_ = {.ids = backend_.make_index_list(tokens),
            .positions = backend_.make_index_list(tokens),
            .scored_rows = backend_.make_index_list(scored),
            .scored_positions = backend_.make_index_list(scored),
            .all_spans = backend_.make_attention_spans(spans),
            .scored_spans = backend_.make_attention_spans(spans)};
  layout_.reserve(limits);
}

void Transformer::forward_stats(const ForwardBatch& batch, std::span<const StatsRequest> requests,
                                HeadStats& stats) {
  const TensorView hidden = forward(batch);
  if (hidden.n_rows == 0) return;
  backend_.head_stats(hidden, *weights_.output_norm, hp_.rms_eps, *weights_.output, requests,
                      stats);
}

void Transformer::forward_logits(const ForwardBatch& batch, std::span<float> out) {
  require_room(out, batch.score.size(), hp_.info.n_vocab);
  logits(forward(batch), out);
}

// The scored rows lie where the last forward left them: statistics only read them.
void Transformer::last_logits(std::span<float> out) {
  require_room(out, layout_.n_scored(), hp_.info.n_vocab);
  logits(act_.scored_hidden->rows(layout_.n_scored()), out);
}

void Transformer::logits(TensorView hidden, std::span<float> out) {
  if (hidden.n_rows == 0) return;
  backend_.logits(hidden, *weights_.output_norm, hp_.rms_eps, *weights_.output, out);
}

TensorView Transformer::forward(const ForwardBatch& batch) {
  DLLM_ASSERT(act_.hidden != nullptr);  // reserve() comes first
  layout_.build(batch, hp_.info);
  const TensorView result = act_.scored_hidden->rows(layout_.n_scored());
  if (layout_.n_scored() == 0) return result;

  lists_.ids->write(batch.ids);
  lists_.positions->write(batch.positions);
  lists_.scored_rows->write(layout_.scored_rows());
  lists_.scored_positions->write(layout_.scored_positions());
  lists_.all_spans->write(layout_.all_spans());
  lists_.scored_spans->write(layout_.scored_spans());
  backend_.run_step({this, layout_.n_tokens(), layout_.n_scored(), layout_.n_spans()},
                    [this] { run_layers(); });
  return result;
}

void Transformer::run_layers() {
  backend_.embed(*weights_.token_embd, *lists_.ids, act_.hidden->rows(layout_.n_tokens()));
  for (std::size_t i = 0; i + 1 < weights_.layers.size(); ++i) run_layer(weights_.layers[i]);
  run_last_layer(weights_.layers.back());
}

void Transformer::run_layer(const LayerWeights& layer) {
  const std::uint32_t n = layout_.n_tokens();
  const TensorView x = act_.hidden->rows(n);
  const TensorView q = act_.q->rows(n);
  const TensorView k = act_.k->rows(n);
  const TensorView v = act_.v->rows(n);

  const Projection projections[] = {{layer.attn_q.get(), layer.attn_q_bias.get(), q},
                                    {layer.attn_k.get(), layer.attn_k_bias.get(), k},
                                    {layer.attn_v.get(), layer.attn_v_bias.get(), v}};
  backend_.norm_linear(x, layer.attn_norm.get(), hp_.rms_eps, projections);
  backend_.rope(q, *lists_.positions, rope_params(hp_.info.n_heads));
  backend_.rope(k, *lists_.positions, rope_params(hp_.info.n_kv_heads));
  attend(layer, q, *lists_.all_spans, x);
  feed_forward(layer, x);
}

// Every row still serves as key and value, but only the scored rows go on.
void Transformer::run_last_layer(const LayerWeights& layer) {
  const std::uint32_t n = layout_.n_tokens();
  const TensorView x = act_.hidden->rows(n);
  const TensorView scored = act_.scored_hidden->rows(layout_.n_scored());
  const TensorView q = act_.q->rows(layout_.n_scored());
  const TensorView k = act_.k->rows(n);
  const TensorView v = act_.v->rows(n);

  const Projection keys_and_values[] = {{layer.attn_k.get(), layer.attn_k_bias.get(), k},
                                        {layer.attn_v.get(), layer.attn_v_bias.get(), v}};
  const Projection queries[] = {{layer.attn_q.get(), layer.attn_q_bias.get(), q}};
  backend_.norm_linear(x, layer.attn_norm.get(), hp_.rms_eps, keys_and_values);
  backend_.rope(k, *lists_.positions, rope_params(hp_.info.n_kv_heads));
  backend_.copy_rows(x, *lists_.scored_rows, scored);
  backend_.norm_linear(scored, layer.attn_norm.get(), hp_.rms_eps, queries);
  backend_.rope(q, *lists_.scored_positions, rope_params(hp_.info.n_heads));
  attend(layer, q, *lists_.scored_spans, scored);
  feed_forward(layer, scored);
}

void Transformer::attend(const LayerWeights& layer, TensorView q, const AttentionSpans& spans,
                         TensorView residual) {
  const std::uint32_t n = layout_.n_tokens();
  const TensorView out = act_.attention->rows(q.n_rows);
  const AttentionParams params{.n_heads = hp_.info.n_heads,
                               .n_kv_heads = hp_.info.n_kv_heads,
                               .head_dim = hp_.info.head_dim,
                               .scale = 1 / std::sqrt(static_cast<float>(hp_.info.head_dim))};
  backend_.attention(q, act_.k->rows(n), act_.v->rows(n), spans, params, out);
  backend_.linear_residual(out, *layer.attn_output, nullptr, residual);
}

void Transformer::feed_forward(const LayerWeights& layer, TensorView residual) {
  backend_.gated_mlp(residual, *layer.ffn_norm, hp_.rms_eps, *layer.ffn_gate, *layer.ffn_up,
                     *layer.ffn_down);
}

RopeParams Transformer::rope_params(std::uint32_t n_heads) const {
  RopeParams params;
  params.kind = rope_;
  params.n_heads = n_heads;
  params.head_dim = hp_.info.head_dim;
  params.n_rot = hp_.n_rot;
  params.theta = hp_.rope_theta;
  params.scale = hp_.rope_scale;
  return params;
}

}  // namespace dllm::model_common
