#include "benchmark_backend.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "conformance.hpp"

namespace dllm::test {
namespace {

constexpr std::size_t kMostWeights = 4;      // gate, up, down and a norm
constexpr std::uint32_t kRandomRows = 1024;  // then again from the first

std::vector<std::byte> repeated_blocks(DType dtype, std::uint32_t n_rows, std::uint32_t n_cols) {
  const std::uint32_t n_random = std::min(n_rows, kRandomRows);
  std::vector<std::byte> bytes = random_blocks(dtype, n_random, n_cols, 1);
  const std::size_t period = bytes.size();
  bytes.resize(n_rows * row_bytes(dtype, n_cols));
  for (std::size_t at = period; at < bytes.size(); at += period)
    std::copy_n(bytes.begin(), std::min(period, bytes.size() - at),
                bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}

}  // namespace

BenchmarkBackend::BenchmarkBackend(const BackendSetup& setup)
    : backend_(cpu_factory().create(check_options(cpu_factory().options(),
                                                  {{"isa", setup.isa},
                                                   {"products", setup.products},
                                                   {"threads", std::to_string(setup.threads)}},
                                                  "backend cpu"),
                                    Log())) {}

const Weight& BenchmarkBackend::import(DType dtype, std::uint32_t n_rows, std::uint32_t n_cols,
                                       WeightRole role) {
  const std::string name = std::string(dtype_name(dtype)) + " " + std::to_string(n_rows) + "x" +
                           std::to_string(n_cols) + (role == WeightRole::embedding ? " table" : "");
  for (const auto& each : weights_)
    if (each->name() == name) return *each;
  if (weights_.size() == kMostWeights) weights_.erase(weights_.begin());
  const TemporaryDirectory folder;
  GgufWriter writer;
  std::vector<std::uint64_t> shape{n_cols};
  if (n_rows > 1) shape.push_back(n_rows);
  writer.add_tensor(name, dtype, shape, repeated_blocks(dtype, n_rows, n_cols));
  writer.write(folder.path() / "weight.gguf");
  const auto file = GgufFile::open(folder.path() / "weight.gguf");
  weights_.push_back(backend_->import_weight(file, file->tensor(name), role));
  return *weights_.back();
}

const Weight& BenchmarkBackend::matrix(DType dtype, std::uint32_t n_rows, std::uint32_t n_cols) {
  return import(dtype, n_rows, n_cols, WeightRole::column_split);
}

const Weight& BenchmarkBackend::norm(std::uint32_t n) {
  return import(DType::f32, 1, n, WeightRole::replicated);
}

const Weight& BenchmarkBackend::table(std::uint32_t n_rows, std::uint32_t n_cols) {
  return import(DType::q4_k, n_rows, n_cols, WeightRole::embedding);
}

std::unique_ptr<Buffer> BenchmarkBackend::filled(std::uint32_t n_rows, std::uint32_t n_cols) {
  return make_filled(*backend_, random_floats(std::size_t{n_rows} * n_cols, 3), n_cols);
}

std::unique_ptr<IndexList> BenchmarkBackend::ids(std::uint32_t n) {
  std::vector<std::int32_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  auto list = backend_->make_index_list(n);
  list->write(values);
  return list;
}

BenchmarkBackend& backend_for(const BackendSetup& setup) {
  static std::optional<BackendSetup> current;
  static std::unique_ptr<BenchmarkBackend> backend;
  if (current != setup) {
    backend.reset();
    backend = std::make_unique<BenchmarkBackend>(setup);
    current = setup;
  }
  return *backend;
}

std::vector<std::string> fast_isas() {
  std::vector<std::string> isas = usable_isas();
  if (isas.size() > 1) std::erase(isas, "portable");
  return isas;
}

std::vector<unsigned> thread_counts() {
  const unsigned most = cpu_factory().probe().devices.at(0).threads;
  std::vector<unsigned> counts{1};
  if (most > 1) counts.push_back(most);
  return counts;
}

}  // namespace dllm::test
