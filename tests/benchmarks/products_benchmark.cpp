// linear_residual over the layer shapes of real models: products with one weight type, the
// preparation of their input included.
#include <benchmark/benchmark.h>

#include <array>

#include "benchmark_backend.hpp"

namespace dllm::test {
namespace {

struct Shape {
  std::uint32_t n_out;
  std::uint32_t n_in;
};

// LLaDA-8B: width 4096, feed-forward 12288, vocabulary 126464. Dream-7B: 3584, 18944, 152064, and
// 512 wide keys and values.
constexpr std::array kShapes = std::to_array<Shape>({{4096, 4096},
                                                     {12288, 4096},
                                                     {4096, 12288},
                                                     {126464, 4096},
                                                     {3584, 3584},
                                                     {512, 3584},
                                                     {18944, 3584},
                                                     {3584, 18944},
                                                     {152064, 3584}});
constexpr std::array kTypes = {DType::q4_k,   DType::q6_k,   DType::q5_k, DType::q8_0, DType::q4_0,
                               DType::q3_k,   DType::q2_k,   DType::q4_1, DType::q5_0, DType::q5_1,
                               DType::iq4_nl, DType::iq4_xs, DType::f16,  DType::bf16, DType::f32};
constexpr std::array kLengths = {64u, 160u, 512u, 1024u};

void linear(benchmark::State& state, const BackendSetup& setup, DType dtype, Shape shape,
            std::uint32_t n_rows) {
  BenchmarkBackend& backend = backend_for(setup);
  const Weight& weight = backend.matrix(dtype, shape.n_out, shape.n_in);
  const auto x = backend.filled(n_rows, shape.n_in);
  const auto residual = backend->make_buffer(n_rows, shape.n_out);
  for (auto _ : state)
    backend->linear_residual(x->rows(n_rows), weight, nullptr, residual->rows(n_rows));
  const double weights = static_cast<double>(shape.n_out) * shape.n_in;
  using Counter = benchmark::Counter;
  state.counters["TOPS"] =
      Counter(2 * weights * n_rows * 1e-12, Counter::kIsIterationInvariantRate);
  state.counters["weights"] =
      Counter(static_cast<double>(shape.n_out * row_bytes(dtype, shape.n_in)),
              Counter::kIsIterationInvariantRate, Counter::kIs1000);
}

void add(const std::string& group, const BackendSetup& setup, DType dtype, Shape shape,
         std::uint32_t n_rows) {
  const std::string name = group + "/" + std::string(dtype_name(dtype)) + "/" + setup.isa + "/" +
                           setup.products + "/" + std::to_string(shape.n_out) + "x" +
                           std::to_string(shape.n_in) + "/L" + std::to_string(n_rows) +
                           "/threads:" + std::to_string(setup.threads);
  benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { linear(state, setup, dtype, shape, n_rows); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

void register_products() {
  for (const std::string& isa : fast_isas())
    for (const char* products : {"fast", "exact"})
      for (const DType dtype : kTypes) {
        for (const Shape shape : kShapes)
          for (const std::uint32_t n_rows : kLengths)
            for (const unsigned threads : thread_counts())
              add("linear", {isa, products, threads}, dtype, shape, n_rows);
        add("linear/smoke", {isa, products, 1}, dtype, {64, 256}, 16);
      }
}

}  // namespace dllm::test
