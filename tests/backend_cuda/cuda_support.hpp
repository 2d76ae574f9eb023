// What the CUDA tests start from: the plugin, buffers filled and read back.
//
//   class Linear : public CudaTest {};
//   TEST_F(Linear, ...) { auto x = fill(values, n_cols); ... read(x->rows(n)) ... }
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conformance.hpp"
#include "subjects.hpp"

namespace dllm::test {

/// The plugin's factory; null where it was not accepted (then the plugin tests fail).
const BackendFactory* cuda_factory();

/// A backend with these options.
std::unique_ptr<Backend> make_cuda(
    const std::map<std::string, std::string, std::less<>>& options = {});

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

/// Root mean square of got - want, relative to that of want.
double relative_error(const std::vector<float>& got, const Rows& want);

/// The bound on an element of W x with binary16 operands: each weight is made from a scale and a
/// minimum of 11 bits and rounded again, each input is rounded once: 4 roundings of 2^-11 relative
/// to the largest weight of its 256 neighbours.
Rows half_tolerance(const Rows& weights, const Rows& x);

}  // namespace dllm::test
