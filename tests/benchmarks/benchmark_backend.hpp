// What the benchmarks share: a backend with the weights one benchmark needs.
//
//   BenchmarkBackend& b = backend_for({"avx512vnni", "fast", 2});
//   const Weight& w = b.matrix(DType::q4_k, 4096, 4096);
//
// The last backend and its last few weights are kept, since Google Benchmark calls a function
// several times; the rest goes at once, for the output matrices take half a gigabyte each.
// Thread rule: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dllm/backend.hpp"

namespace dllm::test {

struct BackendSetup {
  std::string isa;
  std::string products;
  unsigned threads = 1;
  bool operator==(const BackendSetup&) const = default;
};

class BenchmarkBackend {
 public:
  explicit BenchmarkBackend(const BackendSetup& setup);

  Backend& operator*() { return *backend_; }
  Backend* operator->() { return backend_.get(); }
  /// Random weights: [n_rows, n_cols].
  const Weight& matrix(DType dtype, std::uint32_t n_rows, std::uint32_t n_cols);
  const Weight& norm(std::uint32_t n);
  const Weight& table(std::uint32_t n_rows, std::uint32_t n_cols);
  /// A buffer of random rows, n_rows of them.
  std::unique_ptr<Buffer> filled(std::uint32_t n_rows, std::uint32_t n_cols);
  std::unique_ptr<IndexList> ids(std::uint32_t n);  ///< 0, 1, 2, ...

 private:
  const Weight& import(DType dtype, std::uint32_t n_rows, std::uint32_t n_cols, WeightRole role);
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Weight>> weights_;  // the newest last
};

BenchmarkBackend& backend_for(const BackendSetup& setup);

/// Instruction sets this machine runs, but the portable one, which is an oracle.
std::vector<std::string> fast_isas();
/// 1 and, where that is more, what the backend takes by default.
std::vector<unsigned> thread_counts();

void register_products();
void register_ops();

}  // namespace dllm::test
