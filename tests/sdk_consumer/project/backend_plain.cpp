// A backend as plain as it can be: weights decoded to f32 when imported, every operation the loop
// its definition names, one thread. Slow, and short enough to read in one go; head_stats borrows
// the definitions of the SDK (row_statistics.hpp).
#include <algorithm>
#include <cmath>
#include <limits>

#include "dllm/backend.hpp"
#include "dllm/plugin_entry.hpp"
#include "dllm/quant.hpp"
#include "dllm_sdk/row_statistics.hpp"

namespace {

using namespace dllm;

struct PlainBuffer final : Buffer {
  PlainBuffer(std::uint32_t max_rows, std::uint32_t n_cols)
      : Buffer(max_rows, n_cols), values(std::size_t{max_rows} * n_cols) {}
  std::vector<float> values;
};

struct PlainList final : IndexList {
  void write(std::span<const std::int32_t> from) override {
    values.assign(from.begin(), from.end());
  }
  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(values.size()); }
  std::vector<std::int32_t> values;
};

struct PlainSpans final : AttentionSpans {
  void write(std::span<const AttentionSpan> from) override {
    spans.assign(from.begin(), from.end());
  }
  std::vector<AttentionSpan> spans;
};

struct PlainWeight final : Weight {
  using Weight::Weight;
  std::span<const float> row(std::size_t r) const {
    return std::span(values).subspan(r * n_cols(), n_cols());
  }
  std::vector<float> values;
};

std::span<float> row_of(const TensorView& view, std::size_t r) {
  return std::span(static_cast<PlainBuffer*>(view.buffer)->values)
      .subspan(r * view.n_cols, view.n_cols);
}
const PlainWeight& plain(const Weight& weight) { return static_cast<const PlainWeight&>(weight); }
const std::vector<std::int32_t>& plain(const IndexList& list) {
  return static_cast<const PlainList&>(list).values;
}

float dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

// x_j * w_j / sqrt(mean(x^2) + eps)
std::vector<float> rms_norm(std::span<const float> x, std::span<const float> weight, float eps) {
  const float scale = 1 / std::sqrt(dot(x, x) / static_cast<float>(x.size()) + eps);
  std::vector<float> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
  return out;
}

// Pairs rotate by p * scale * theta^(-2m / n_rot).
void rotate(std::span<float> head, const RopeParams& params, std::int32_t position) {
  const std::uint32_t half = params.n_rot / 2;
  for (std::uint32_t m = 0; m < half; ++m) {
    const double angle = position * params.scale * std::pow(params.theta, -2.0 * m / params.n_rot);
    const std::uint32_t a = params.kind == RopeKind::neox ? m : 2 * m;
    const std::uint32_t b = params.kind == RopeKind::neox ? m + half : 2 * m + 1;
    const auto [c, s] =
        std::pair(static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle)));
    const float x = head[a];
    head[a] = x * c - head[b] * s;
    head[b] = x * s + head[b] * c;
  }
}

class PlainBackend final : public Backend {
 public:
  DeviceInfo device() const override {
    return {"plain", "one thread, no hurry", "portable", 1, 0, 0};
  }
  bool supports(Op, DType weight_type) const override { return can_decode(weight_type); }

  std::unique_ptr<Buffer> make_buffer(std::uint32_t max_rows, std::uint32_t n_cols) override {
    return std::make_unique<PlainBuffer>(max_rows, n_cols);
  }
  std::unique_ptr<IndexList> make_index_list(std::uint32_t) override {
    return std::make_unique<PlainList>();
  }
  std::unique_ptr<AttentionSpans> make_attention_spans(std::uint32_t) override {
    return std::make_unique<PlainSpans>();
  }
  void reserve(const StepLimits&) override {}

  std::unique_ptr<Weight> import_weight(std::shared_ptr<const GgufFile> file,
                                        const TensorInfo& tensor, WeightRole) override {
    const auto n_cols = static_cast<std::uint32_t>(tensor.shape[0]);
    const auto n_rows = static_cast<std::uint32_t>(tensor.n_elements() / n_cols);
    auto weight = std::make_unique<PlainWeight>(tensor.name, tensor.dtype, n_rows, n_cols);
    weight->values.resize(tensor.n_elements());
    decode_row(tensor.dtype, file->data(tensor), weight->values);
    file->release_pages(tensor);
    return weight;
  }

  void embed(const Weight& table, const IndexList& ids, TensorView out) override {
    for (std::size_t r = 0; r < plain(ids).size(); ++r) {
      std::ranges::copy(plain(table).row(static_cast<std::size_t>(plain(ids)[r])),
                        row_of(out, r).begin());
    }
  }

  void norm_linear(TensorView x, const Weight* norm, float eps,
                   std::span<const Projection> projections) override {
    for (std::uint32_t r = 0; r < x.n_rows; ++r) {
      const auto in = row_of(x, r);
      const std::vector<float> h = norm == nullptr ? std::vector(in.begin(), in.end())
                                                   : rms_norm(in, plain(*norm).values, eps);
      for (const Projection& p : projections) multiply(h, *p.weight, p.bias, row_of(p.out, r), 0);
    }
  }

  void rope(TensorView x, const IndexList& positions, const RopeParams& params) override {
    for (std::uint32_t r = 0; r < x.n_rows; ++r) {
      for (std::uint32_t h = 0; h < params.n_heads; ++h) {
        const auto head = row_of(x, r).subspan(std::size_t{h} * params.head_dim, params.head_dim);
        if (params.head_norm != nullptr) {
          std::ranges::copy(rms_norm(head, plain(*params.head_norm).values, params.head_norm_eps),
                            head.begin());
        }
        rotate(head, params, plain(positions)[r]);
      }
    }
  }

  void attention(TensorView q, TensorView k, TensorView v, const AttentionSpans& spans,
                 const AttentionParams& params, TensorView out) override {
    for (const AttentionSpan& span : static_cast<const PlainSpans&>(spans).spans) {
      for (std::uint32_t r = span.q_begin; r < span.q_begin + span.q_count; ++r) {
        for (std::uint32_t h = 0; h < params.n_heads; ++h) attend(q, k, v, span, params, r, h, out);
      }
    }
  }

  void linear_residual(TensorView x, const Weight& weight, const Weight* bias,
                       TensorView residual) override {
    for (std::uint32_t r = 0; r < x.n_rows; ++r)
      multiply(row_of(x, r), weight, bias, row_of(residual, r), 1);
  }

  void gated_mlp(TensorView x, const Weight& norm, float eps, const Weight& gate, const Weight& up,
                 const Weight& down) override {
    std::vector<float> g(gate.n_rows());
    std::vector<float> u(up.n_rows());
    for (std::uint32_t r = 0; r < x.n_rows; ++r) {
      const std::vector<float> h = rms_norm(row_of(x, r), plain(norm).values, eps);
      multiply(h, gate, nullptr, g, 0);
      multiply(h, up, nullptr, u, 0);
      for (std::size_t i = 0; i < g.size(); ++i) g[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
      multiply(g, down, nullptr, row_of(x, r), 1);
    }
  }

  void copy_rows(TensorView src, const IndexList& rows, TensorView dst) override {
    for (std::size_t r = 0; r < plain(rows).size(); ++r) {
      std::ranges::copy(row_of(src, static_cast<std::size_t>(plain(rows)[r])),
                        row_of(dst, r).begin());
    }
  }

  void head_stats(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                  std::span<const StatsRequest> requests, HeadStats& stats) override;

  void logits(TensorView hidden, const Weight& norm, float eps, const Weight& output,
              std::span<float> out) override {
    for (std::uint32_t r = 0; r < hidden.n_rows; ++r) {
      multiply(rms_norm(row_of(hidden, r), plain(norm).values, eps), output, nullptr,
               out.subspan(std::size_t{r} * output.n_rows(), output.n_rows()), 0);
    }
  }

  void run_step(const StepKey&, const std::function<void()>& body) override { body(); }

 private:
  // out = keep * out + W x (+ bias)
  static void multiply(std::span<const float> x, const Weight& weight, const Weight* bias,
                       std::span<float> out, float keep) {
    for (std::size_t o = 0; o < out.size(); ++o) {
      out[o] = keep * out[o] + dot(plain(weight).row(o), x) +
               (bias == nullptr ? 0 : plain(*bias).values[o]);
    }
  }

  static void attend(TensorView q, TensorView k, TensorView v, const AttentionSpan& span,
                     const AttentionParams& params, std::uint32_t r, std::uint32_t h,
                     TensorView out) {
    const auto part = [&](TensorView of, std::uint32_t row, std::uint32_t head) {
      return row_of(of, row).subspan(std::size_t{head} * params.head_dim, params.head_dim);
    };
    const std::uint32_t kv_head = h * params.n_kv_heads / params.n_heads;
    std::vector<float> weights(span.kv_count);
    for (std::uint32_t i = 0; i < span.kv_count; ++i) {
      weights[i] = params.scale * dot(part(q, r, h), part(k, span.kv_begin + i, kv_head));
    }
    const float peak = std::ranges::max(weights);
    float sum = 0;
    for (float& w : weights) sum += w = std::exp(w - peak);
    const auto to = part(out, r, h);
    std::ranges::fill(to, 0.0f);
    for (std::uint32_t i = 0; i < span.kv_count; ++i) {
      const auto value = part(v, span.kv_begin + i, kv_head);
      for (std::uint32_t d = 0; d < params.head_dim; ++d) to[d] += weights[i] / sum * value[d];
    }
  }
};

// What a request asks, in the terms of the SDK; borrows `request`.
dllm_plan plan_of(const StatsRequest& request) {
  dllm_plan plan{};
  plan.flags = request.allow_all ? DLLM_PLAN_ALLOW_ALL : 0;
  plan.domain = request.domain == Domain::filtered ? DLLM_DOMAIN_FILTERED : DLLM_DOMAIN_RAW;
  plan.temperature = request.temperature;
  plan.top_p = request.top_p;
  plan.top_k = request.top_k;
  plan.suppress_both = request.suppress_both.data();
  plan.n_suppress_both = static_cast<std::uint32_t>(request.suppress_both.size());
  plan.suppress_confidence = request.suppress_confidence.data();
  plan.n_suppress_confidence = static_cast<std::uint32_t>(request.suppress_confidence.size());
  plan.prob_of = request.prob_of.data();
  plan.n_prob_of = static_cast<std::uint32_t>(request.prob_of.size());
  plan.n_top_list = request.top_list;
  return plan;
}

void store(const sdk::RowStatistics& from, bool finite, std::size_t row, HeadStats& stats) {
  stats.non_finite[row] = finite && from.sampled >= 0 ? 0 : 1;
  stats.sampled[row] = from.sampled;
  stats.sampled_prob[row] = static_cast<float>(from.sampled_prob);
  stats.argmax[row] = from.argmax;
  stats.top1_prob[row] = static_cast<float>(from.top1_prob);
  stats.top2_prob[row] = static_cast<float>(from.top2_prob);
  stats.entropy[row] = static_cast<float>(from.entropy);
  stats.log_sum_exp[row] = static_cast<float>(from.log_sum_exp);
  for (std::size_t j = 0; j < from.prob_of.size(); ++j) {
    stats.prob_of[row * stats.prob_of_stride + j] = static_cast<float>(from.prob_of[j]);
  }
  for (std::size_t j = 0; j < from.top_ids.size(); ++j) {
    stats.top_ids[row * stats.top_stride + j] = from.top_ids[j];
    stats.top_probs[row * stats.top_stride + j] = static_cast<float>(from.top_probs[j]);
  }
}

void PlainBackend::head_stats(TensorView hidden, const Weight& norm, float eps,
                              const Weight& output, std::span<const StatsRequest> requests,
                              HeadStats& stats) {
  const std::size_t n_vocab = output.n_rows();
  std::vector<float> all(hidden.n_rows * n_vocab);
  logits(hidden, norm, eps, output, all);
  for (const StatsRequest& request : requests) {
    dllm_model_facts facts{};
    facts.mask_id = request.mask_id;
    facts.n_tokens = request.n_tokens;
    for (std::uint32_t i = 0; i < request.positions.size(); ++i) {
      sdk::LogitRow row;
      bool finite = true;
      for (std::size_t id = 0; id < n_vocab; ++id) {
        double l = static_cast<double>(all[(request.first_row + i) * n_vocab + id]);
        if (request.guided) {
          const double u =
              static_cast<double>(all[(request.guidance_first_row + i) * n_vocab + id]);
          l = u + (static_cast<double>(request.guidance_scale) + 1) * (l - u);
        }
        finite = finite && !std::isnan(l) && l != std::numeric_limits<double>::infinity();
        row.push_back({static_cast<std::int32_t>(id), l});
      }
      store(sdk::row_statistics(std::move(row), plan_of(request), facts, request.seed, request.step,
                                request.positions[i]),
            finite, request.first_row + i, stats);
    }
  }
}

class PlainFactory final : public BackendFactory {
 public:
  Probe probe() const override { return {true, {}, {PlainBackend().device()}}; }
  int preference() const override { return -1; }  // only where it is asked for
  std::span<const OptionInfo> options() const override { return {}; }
  std::unique_ptr<Backend> create(const OptionValues&, const Log&) const override {
    return std::make_unique<PlainBackend>();
  }
};

}  // namespace

DLLM_BACKEND_PLUGIN("plain", "1.0.0", "every operation as its definition says", PlainFactory)
