// The operations of a step that are no weight products, over the layer shapes of LLaDA-8B and
// Dream-7B. Every figure is milliseconds of one step: an operation's time times how often a step
// runs it.
//
//   step_share_benchmark --isa=avx2 --threads=2 --model=dream --benchmark_filter='Attention/160'
//
// The argument behind the name is the canvas length. Attention, Rope, Norm (RMSNorm, quantisation
// and one tile of products) and Head run through the plugin as a model does. Draw is a Head with
// noise: Draw minus Head is what temperature costs. SiluQuantise is the kernels between gate and
// down on one thread.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>

#include "conformance.hpp"
#include "isa.hpp"

namespace dllm::test {
namespace {

struct Shape {
  const char* name;
  std::uint32_t layers, width, n_heads, n_kv_heads, ffn, vocab;
  RopeKind rope;
};
constexpr std::uint32_t kHeadDim = 128;
constexpr std::array<Shape, 2> kShapes = {
    {{"llada", 32, 4096, 32, 32, 12288, 126464, RopeKind::norm},
     {"dream", 28, 3584, 28, 4, 18944, 152064, RopeKind::neox}}};

struct Options {
  std::string isa = "auto";
  std::string products = "exact";
  int threads = 2;
  const Shape* shape = kShapes.data();
};

// Runs body, once outside the clock, and reports milliseconds of a step.
void time_step(benchmark::State& state, double times_a_step, const std::function<void()>& body) {
  body();
  for (auto _ : state) body();
  state.counters["step_ms"] =
      benchmark::Counter(1 / (times_a_step * 1e3), benchmark::Counter::kIsIterationInvariantRate |
                                                       benchmark::Counter::kInvert);
}

std::unique_ptr<Buffer> filled(Backend& backend, std::uint32_t n_rows, std::uint32_t n_cols,
                               std::uint64_t seed, float scale) {
  return make_filled(backend, random_floats(std::size_t{n_rows} * n_cols, seed, scale), n_cols);
}

void attention(benchmark::State& state, const Options& options) {
  const Shape& shape = *options.shape;
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto backend = make_backend({options.isa, options.products, options.threads});
  const auto q = filled(*backend, n, shape.n_heads * kHeadDim, 1, 1);
  const auto k = filled(*backend, n, shape.n_kv_heads * kHeadDim, 2, 1);
  const auto v = filled(*backend, n, shape.n_kv_heads * kHeadDim, 3, 1);
  const auto out = backend->make_buffer(n, shape.n_heads * kHeadDim);
  const auto spans = backend->make_attention_spans(1);
  spans->write(std::vector<AttentionSpan>{{0, n, 0, n, MaskKind::full}});
  time_step(state, shape.layers, [&] {
    backend->attention(q->rows(n), k->rows(n), v->rows(n), *spans,
                       {shape.n_heads, shape.n_kv_heads, kHeadDim, 0.088F}, out->rows(n));
  });
  const double flops = 4.0 * n * n * shape.n_heads * kHeadDim;
  state.counters["gflops"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// Both calls of a layer: queries and keys.
void rope(benchmark::State& state, const Options& options) {
  const Shape& shape = *options.shape;
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto backend = make_backend({options.isa, options.products, options.threads});
  const auto q = filled(*backend, n, shape.n_heads * kHeadDim, 1, 1);
  const auto k = filled(*backend, n, shape.n_kv_heads * kHeadDim, 2, 1);
  const auto positions = backend->make_index_list(n);
  std::vector<std::int32_t> list(n);
  for (std::uint32_t i = 0; i < n; ++i) list[i] = static_cast<std::int32_t>(i);
  positions->write(list);
  RopeParams params;
  params.kind = shape.rope;
  params.head_dim = params.n_rot = kHeadDim;
  params.theta = 500000;
  time_step(state, shape.layers, [&] {
    params.n_heads = shape.n_heads;
    backend->rope(q->rows(n), *positions, params);
    params.n_heads = shape.n_kv_heads;
    backend->rope(k->rows(n), *positions, params);
  });
}

void norm(benchmark::State& state, const Options& options) {
  const Shape& shape = *options.shape;
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto backend = make_backend({options.isa, options.products, options.threads});
  WeightFile file;
  file.add("w", DType::q4_k, 32, shape.width, 1);
  file.add_vector("norm", random_floats(shape.width, 2, 1));
  const auto w = file.import_to(*backend, "w");
  const auto weights = file.import_to(*backend, "norm", WeightRole::replicated);
  const auto x = filled(*backend, n, shape.width, 3, 1);
  const auto out = backend->make_buffer(n, 32);
  const std::array<Projection, 1> projections = {{{w.get(), nullptr, out->rows(n)}}};
  // A layer prepares its input three times: q k v, output (without a norm), gate and up.
  time_step(state, 3 * shape.layers,
            [&] { backend->norm_linear(x->rows(n), weights.get(), 1e-5F, projections); });
}

void embed(benchmark::State& state, const Options& options) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto backend = make_backend({options.isa, options.products, options.threads});
  WeightFile file;
  file.add("table", DType::q4_k, 1000, options.shape->width, 1);
  const auto table = file.import_to(*backend, "table", WeightRole::embedding);
  const auto out = backend->make_buffer(n, options.shape->width);
  const auto ids = backend->make_index_list(n);
  std::vector<std::int32_t> list(n);
  for (std::uint32_t i = 0; i < n; ++i) list[i] = static_cast<std::int32_t>(i * 37 % 1000);
  ids->write(list);
  time_step(state, 1, [&] { backend->embed(*table, *ids, out->rows(n)); });
}

// silu(gate) * up and its quantisation, tile by tile as gated_mlp does, on one thread.
void silu_quantise(benchmark::State& state, const Options& options) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const cpu::RowMath& rows = cpu::choose_isa(options.isa, "--isa").kernels->rows;
  const std::vector<float> gate = random_floats(std::size_t{n} * 32, 1, 4);
  const std::vector<float> up = random_floats(std::size_t{n} * 32, 2, 4);
  std::vector<float> out(gate.size());
  std::vector<cpu::ActivationGroup> groups(n);
  time_step(state, options.shape->layers * options.shape->ffn / 32.0, [&] {
    rows.silu_multiply(gate.data(), up.data(), n * 32, out.data());
    rows.quantise({out.data(), 32, n, 1, nullptr, nullptr}, groups.data(), 0);
    benchmark::ClobberMemory();
  });
}

// A head of 32 inputs, so that statistics are most of it.
void head(benchmark::State& state, const Options& options, float temperature) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto backend = make_backend({options.isa, options.products, options.threads});
  WeightFile file;
  file.add("output", DType::q8_0, options.shape->vocab, 32, 1);
  file.add_vector("norm", random_floats(32, 2, 1));
  const auto output = file.import_to(*backend, "output");
  const auto weights = file.import_to(*backend, "norm", WeightRole::replicated);
  const auto hidden = filled(*backend, n, 32, 3, 1);
  std::vector<std::uint32_t> positions(n);
  for (std::uint32_t i = 0; i < n; ++i) positions[i] = i;
  StatsRequest request;
  request.positions = positions;
  request.want = kStatSampled | kStatTop2 | kStatEntropy;
  request.temperature = temperature;
  request.n_tokens = options.shape->vocab;
  HeadStats stats;
  stats.reserve(n, 0, 0);
  time_step(state, 1, [&] {
    ++request.step;
    const std::array requests = {request};
    backend->head_stats(hidden->rows(n), *weights, 1e-5F, *output, requests, stats);
  });
}

void add_benchmarks(const Options& options) {
  using Body = std::function<void(benchmark::State&, const Options&)>;
  const std::array<std::pair<const char*, Body>, 7> all = {
      {{"Attention", attention},
       {"Rope", rope},
       {"Norm", norm},
       {"Embed", embed},
       {"SiluQuantise", silu_quantise},
       {"Head", [](auto& state, auto& o) { head(state, o, 0); }},
       {"Draw", [](auto& state, auto& o) { head(state, o, 1); }}}};
  for (const auto& [name, body] : all)
    benchmark::RegisterBenchmark(name, [&options, body](auto& state) { body(state, options); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime()
        ->Arg(64)
        ->Arg(160)
        ->Arg(512)
        ->Arg(1024);
}

// Takes our own options out of the arguments.
Options read_options(int& argc, char** argv) {
  Options options;
  const auto value = [](const char* argument, const char* name) {
    const std::size_t n = std::strlen(name);
    return std::strncmp(argument, name, n) == 0 ? argument + n : nullptr;
  };
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (const char* isa = value(argv[i], "--isa=")) {
      options.isa = isa;
    } else if (const char* products = value(argv[i], "--products=")) {
      options.products = products;
    } else if (const char* threads = value(argv[i], "--threads=")) {
      options.threads = std::atoi(threads);
    } else if (const char* model = value(argv[i], "--model=")) {
      for (const Shape& shape : kShapes)
        if (std::strcmp(model, shape.name) == 0) options.shape = &shape;
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return options;
}

}  // namespace
}  // namespace dllm::test

int main(int argc, char** argv) {
  const dllm::test::Options options = dllm::test::read_options(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  dllm::test::add_benchmarks(options);
  std::printf("isa %s, threads %d, model %s\n", options.isa.c_str(), options.threads,
              options.shape->name);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
