// Registers everything and runs what the filter names; a filter that names nothing is a failure.
#include <benchmark/benchmark.h>

#include "benchmark_backend.hpp"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  dllm::test::register_products();
  dllm::test::register_ops();
  const std::size_t n_run = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return n_run > 0 ? 0 : 1;
}
