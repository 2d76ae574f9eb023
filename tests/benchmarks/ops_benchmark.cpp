// Every op but the plain products, in the shapes of LLaDA-8B (heads of 128) and Dream-7B (28 query
// heads on 4 key/value heads).
#include <benchmark/benchmark.h>

#include <array>
#include <functional>

#include "benchmark_backend.hpp"

namespace dllm::test {
namespace {

constexpr float kEps = 1e-5F;
constexpr std::uint32_t kWidth = 4096;
constexpr std::array kLengths = {16u, 160u, 1024u};

using Body = std::function<void(benchmark::State&, BenchmarkBackend&, std::uint32_t n_rows)>;

void embed(benchmark::State& state, BenchmarkBackend& backend, std::uint32_t n_rows) {
  const Weight& table = backend.table(4096, kWidth);
  const auto ids = backend.ids(n_rows);
  const auto out = backend->make_buffer(n_rows, kWidth);
  for (auto _ : state) backend->embed(table, *ids, out->rows(n_rows));
}

// The norm and the preparation of the input dominate beside so small a projection.
void norm(benchmark::State& state, BenchmarkBackend& backend, std::uint32_t n_rows) {
  const Weight& weight = backend.matrix(DType::q4_k, 32, kWidth);
  const Weight& norm = backend.norm(kWidth);
  const auto x = backend.filled(n_rows, kWidth);
  const auto out = backend->make_buffer(n_rows, 32);
  const Projection projection{&weight, nullptr, out->rows(n_rows)};
  for (auto _ : state)
    backend->norm_linear(x->rows(n_rows), &norm, kEps, std::span(&projection, 1));
}

void rope_of(benchmark::State& state, BenchmarkBackend& backend, std::uint32_t n_rows,
             RopeKind kind) {
  const auto x = backend.filled(n_rows, kWidth);
  const auto positions = backend.ids(n_rows);
  RopeParams params;
  params.kind = kind;
  params.n_heads = 32;
  params.head_dim = params.n_rot = 128;
  for (auto _ : state) backend->rope(x->rows(n_rows), *positions, params);
}

void attention_of(benchmark::State& state, BenchmarkBackend& backend, std::uint32_t n_rows,
                  std::uint32_t n_heads, std::uint32_t n_kv_heads) {
  constexpr std::uint32_t kHead = 128;
  const auto q = backend.filled(n_rows, n_heads * kHead);
  const auto k = backend.filled(n_rows, n_kv_heads * kHead);
  const auto v = backend.filled(n_rows, n_kv_heads * kHead);
  const auto out = backend->make_buffer(n_rows, n_heads * kHead);
  const auto spans = backend->make_attention_spans(1);
  const AttentionSpan span{0, n_rows, 0, n_rows, MaskKind::full};
  spans->write(std::span(&span, 1));
  const AttentionParams params{n_heads, n_kv_heads, kHead, 0.088F};
  for (auto _ : state)
    backend->attention(q->rows(n_rows), k->rows(n_rows), v->rows(n_rows), *spans, params,
                       out->rows(n_rows));
  state.counters["TOPS"] = benchmark::Counter(4e-12 * n_rows * n_rows * n_heads * kHead,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void gated_mlp(benchmark::State& state, BenchmarkBackend& backend, std::uint32_t n_rows) {
  constexpr std::uint32_t kFfn = 12288;
  const Weight& gate = backend.matrix(DType::q4_k, kFfn, kWidth);
  const Weight& down = backend.matrix(DType::q4_k, kWidth, kFfn);
  const Weight& norm = backend.norm(kWidth);
  const auto x = backend.filled(n_rows, kWidth);
  for (auto _ : state) backend->gated_mlp(x->rows(n_rows), norm, kEps, gate, gate, down);
  state.counters["TOPS"] = benchmark::Counter(6e-12 * n_rows * kWidth * kFfn,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

// The vocabulary of a step with a short input, so that the statistics weigh more than the products.
void head_of(benchmark::State& state, BenchmarkBackend& backend, std::uint32_t n_rows,
             std::uint32_t want, float temperature) {
  constexpr std::uint32_t kVocabulary = 126464;
  constexpr std::uint32_t kShort = 256;
  const Weight& output = backend.matrix(DType::q6_k, kVocabulary, kShort);
  const Weight& norm = backend.norm(kShort);
  const auto hidden = backend.filled(n_rows, kShort);
  std::vector<std::uint32_t> positions(n_rows);
  StatsRequest request;
  request.positions = positions;
  request.want = want;
  request.temperature = temperature;
  request.n_tokens = kVocabulary;
  HeadStats stats;
  stats.reserve(n_rows, 0, 0);
  for (auto _ : state)
    backend->head_stats(hidden->rows(n_rows), norm, kEps, output, std::span(&request, 1), stats);
}

void copy_rows(benchmark::State& state, BenchmarkBackend& backend, std::uint32_t n_rows) {
  const auto from = backend.filled(n_rows, kWidth);
  const auto to = backend->make_buffer(n_rows, kWidth);
  const auto rows = backend.ids(n_rows);
  for (auto _ : state) backend->copy_rows(from->rows(n_rows), *rows, to->rows(n_rows));
}

struct NamedBody {
  const char* name;
  Body body;
};

std::vector<NamedBody> all_bodies() {
  using State = benchmark::State;
  using Bench = BenchmarkBackend;
  return {
      {"embed", embed},
      {"norm", norm},
      {"rope_norm", [](State& s, Bench& b, std::uint32_t n) { rope_of(s, b, n, RopeKind::norm); }},
      {"rope_neox", [](State& s, Bench& b, std::uint32_t n) { rope_of(s, b, n, RopeKind::neox); }},
      {"attention_32_heads",
       [](State& s, Bench& b, std::uint32_t n) { attention_of(s, b, n, 32, 32); }},
      {"attention_28_on_4",
       [](State& s, Bench& b, std::uint32_t n) { attention_of(s, b, n, 28, 4); }},
      {"gated_mlp", gated_mlp},
      {"head_argmax",
       [](State& s, Bench& b, std::uint32_t n) { head_of(s, b, n, kStatArgmax, 0); }},
      {"head_greedy",
       [](State& s, Bench& b, std::uint32_t n) { head_of(s, b, n, kStatSampled, 0); }},
      {"head_noise",
       [](State& s, Bench& b, std::uint32_t n) { head_of(s, b, n, kStatSampled, 1); }},
      {"head_entropy",
       [](State& s, Bench& b, std::uint32_t n) {
         head_of(s, b, n, kStatSampled | kStatEntropy | kStatTop2, 0);
       }},
      {"copy_rows", copy_rows}};
}

}  // namespace

void register_ops() {
  for (const std::string& isa : fast_isas())
    for (const NamedBody& each : all_bodies())
      for (const std::uint32_t n_rows : kLengths)
        for (const unsigned threads : thread_counts()) {
          const std::string name = std::string("ops/") + each.name + "/" + isa + "/L" +
                                   std::to_string(n_rows) + "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=](benchmark::State& state) {
                                         each.body(state, backend_for({isa, "fast", threads}),
                                                   n_rows);
                                       })
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
        }
}

}  // namespace dllm::test
