// What the CUDA tests start from: the plugin, buffers filled and read back.
//
//   class Linear : public CudaTest {};
//   TEST_F(Linear, ...) { auto x = fill(values, n_cols); ... read(x->rows(n)) ... }
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance.hpp"
#include "subjects.hpp"

namespace dllm::test {

/// Where the plugins are: in the build's folder, or, of a build that was carried to another
/// machine, where the environment's DLLM_TEST_PLUGINS says.
std::string plugin_folder();

/// The plugin's factory; null where it was not accepted (then the plugin tests fail).
const BackendFactory* cuda_factory();

/// A backend with these options, products=f16 where they name no other: its rounding is what most
/// tests allow for.
std::unique_ptr<Backend> make_cuda(std::map<std::string, std::string, std::less<>> options = {});

/// One with this `products`; null where the GPU is older than they need, and it says so.
std::unique_ptr<Backend> make_products(const std::string& products);

/// The values of a buffer to about 2^-30 of a row's largest. An identity product reads the leading
/// 11 bits (binary16); what is left is read the same way, twice.
std::vector<float> read_closely(Backend& backend, TensorView view);

/// Makes a backend, or skips the test with the plugin's own reason.
class CudaTest : public SubjectsTest {
 protected:
  void SetUp() override;
  Backend& backend() { return *backend_; }
  std::unique_ptr<Buffer> fill(const std::vector<float>& values, std::uint32_t n_cols) {
    return make_filled(*backend_, values, n_cols);
  }
  std::vector<float> read(TensorView view) { return read_closely(*backend_, view); }
  std::unique_ptr<Backend> backend_;
};

constexpr float kEps = 1e-5F;  // of norms

/// Every type that weights may have.
std::vector<DType> all_types();
/// The type, as the name of a test's parameter.
std::string type_name(const testing::TestParamInfo<DType>& info);

/// A feed-forward layer of random weights and a norm.
class FeedForward {
 public:
  FeedForward(Backend& backend, DType type, std::uint32_t width, std::uint32_t n_ffn);
  /// `add`: gate, up and down to the file.
  FeedForward(Backend& backend, std::uint32_t width, const std::function<void(WeightFile&)>& add);
  FeedForward(Backend& backend, const Rows& gate, const Rows& up, const Rows& down);

  /// Rows of its width with what it adds to them, there.
  void run(TensorView x) const;
  /// What it adds to these rows.
  std::vector<float> added(const std::vector<float>& rows) const;
  /// Before the layer's products, and what it adds, by the oracle.
  Rows oracle_normed(const std::vector<float>& rows) const;
  Rows oracle_added(const std::vector<float>& rows) const;

  const Rows& gate_values() const { return file_.decoded("gate"); }
  const Rows& up_values() const { return file_.decoded("up"); }
  const Rows& down_values() const { return file_.decoded("down"); }

 private:
  void import();

  Backend* backend_;
  std::uint32_t width_;
  WeightFile file_;

 public:
  std::unique_ptr<Weight> gate, up, down, norm;
};

/// A weight or an input that is not finite shows in every row that meets it, and in no other.
/// `layer(bad)`: of that width, with `bad` among gate's weights if there is one.
void expect_what_is_not_finite_to_show(
    Backend& backend, std::uint32_t width,
    const std::function<FeedForward(std::optional<float> bad)>& layer);

/// Rows as int8 with a step for every `group` values, the largest over 127, represents them: 256 of
/// what gate and up read and of column-split weights, else 128. Codes are
/// found in f32: half of an even largest value lies on the border between 63 and 64, on either side
/// of which the inverse's rounding brings it.
Rows rounded_to_int8(Rows rows, std::size_t group = 128);
/// What products of int8 may be off from those of rounded operands: an input that f32 makes a
/// little larger or smaller than the oracle does may fall on the other side of a border.
constexpr double kBorderError = 2e-4;
/// Error of a product of int8, uniform inputs and random weights, root mean square: a step of 2 /
/// 254 of the range, uniformly off by half of it, over the deviation, in both operands.
constexpr double kInt8Error = 12e-3;

/// Root mean square of got - want, relative to that of want.
double relative_error(const std::vector<float>& got, const Rows& want);

/// The bound on an element of W x with binary16 operands: each weight is made from a scale and a
/// minimum of 11 bits and rounded again, each input is rounded once: 4 roundings of 2^-11 relative
/// to the largest weight of its 256 neighbours.
Rows half_tolerance(const Rows& weights, const Rows& x);

}  // namespace dllm::test
