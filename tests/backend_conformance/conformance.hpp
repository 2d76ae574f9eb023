// What every conformance test starts from: the plugin as it is loaded in earnest, made-up weights
// with their decoded values, buffers filled and read back.
//
//   for (const RunSetup& setup : all_setups()) {
//     SCOPED_TRACE(setup.name());
//     auto backend = make_backend(setup);
//     WeightFile file;
//     file.add("w", DType::q4_k, n_out, n_in, seed);
//     auto w = file.import_to(*backend, "w");
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dllm/backend.hpp"
#include "dllm/plugin.hpp"
#include "dllm/quant.hpp"
#include "gguf_writer.hpp"
#include "oracle_ops.hpp"

namespace dllm::test {

/// One way to run the CPU backend.
struct RunSetup {
  std::string isa;
  std::string products = "exact";
  int threads = 2;
  std::string name() const { return isa + "/" + products + "/" + std::to_string(threads); }
};

/// Instruction sets the plugin offers and this machine can run.
std::vector<std::string> usable_isas();
/// Whether the instruction set has fast products of the K types.
bool has_fast_products(const std::string& isa);
/// Types that fast products take.
bool is_k_type(DType dtype);
const BackendFactory& cpu_factory();
std::unique_ptr<Backend> make_backend(const RunSetup& setup);

/// Types whose products run in integers, and those that run in f32.
std::vector<DType> code_dtypes();
std::vector<DType> float_dtypes();

/// Random blocks of any decodable type with weights of roughly unit size / sqrt(n_cols).
std::vector<std::byte> random_blocks(DType dtype, std::uint32_t n_rows, std::uint32_t n_cols,
                                     std::uint64_t seed);

/// Uniform in [-scale, scale].
std::vector<float> random_floats(std::size_t n, std::uint64_t seed, float scale = 1);

/// Tensors, in a GGUF file and decoded.
class WeightFile {
 public:
  void add(const std::string& name, DType dtype, std::uint32_t n_rows, std::uint32_t n_cols,
           std::uint64_t seed);
  void add_blocks(const std::string& name, DType dtype, std::uint32_t n_rows, std::uint32_t n_cols,
                  const std::vector<std::byte>& bytes);
  void add_vector(const std::string& name, const std::vector<float>& values);
  void add_matrix(const std::string& name, const Rows& rows);  // F32
  std::unique_ptr<Weight> import_to(Backend& backend, const std::string& name,
                                    WeightRole role = WeightRole::column_split);
  const Rows& decoded(const std::string& name) const { return decoded_.at(name); }
  std::span<const double> vector(const std::string& name) const { return decoded_.at(name)[0]; }
  std::shared_ptr<const GgufFile> file();

 private:
  GgufWriter writer_;
  std::map<std::string, Rows> decoded_;
  TemporaryDirectory folder_;
  std::shared_ptr<const GgufFile> file_;
};

/// Writes and reads buffers through a backend's own operations: rows go in as an embedding table of
/// F32 rows, and come out through `logits` with an identity matrix.
std::unique_ptr<Buffer> make_filled(Backend& backend, const std::vector<float>& values,
                                    std::uint32_t n_cols);
std::vector<float> read(Backend& backend, TensorView view);

Rows to_rows(const std::vector<float>& values, std::uint32_t n_cols);

/// |got - want| <= tolerance, element by element, with a message that says which differs.
void expect_near(const std::vector<float>& got, const Rows& want, const Rows& tolerance);
/// Bit for bit.
void expect_same(const std::vector<float>& got, const std::vector<float>& want);

/// How exact products see an int8 activation, step * code with one step for 32 inputs:
enum class Steps {
  free,    ///< largest |x| / 127
  fine,    ///< largest |x| / 127 / 254: two planes of codes, the second of what the first leaves
  shared,  ///< multiples of one unit in 256 inputs (plugins/backend_cpu/block_kernels.hpp)
};
Steps steps_of(const RunSetup& setup, DType weights);

/// The error int8 activations may cause in W x: each input is off by at most half a step, plus f32
/// rounding of the sums.
Rows int8_tolerance(const Rows& weights, const Rows& x, Steps steps);
/// The same for fast products: of both inputs and weights, steps of blocks of 256. The step of the
/// weights follows the largest code a block could hold; in random blocks one nearly as large is
/// there.
Rows fast_tolerance(const Rows& weights, const Rows& x);
/// x as int8 activations represent it.
Rows int8_rounded(const Rows& x, Steps steps);
/// For W times int8_rounded(x): f32 rounding, and two inputs that fell on the other side of a step.
Rows int8_exact_tolerance(const Rows& weights, const Rows& x, Steps steps);
/// Inputs rounded to BF16 (2^-9 of each at most), and f32 rounding.
Rows brain_tolerance(const Rows& weights, const Rows& x);
/// f32 rounding alone: n_cols roundings of 2^-24, relative to sum |w x|.
Rows f32_tolerance(const Rows& weights, const Rows& x);

}  // namespace dllm::test
