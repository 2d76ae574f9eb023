// What the tests of products=mixed start from: backends of each way, weights that packing keeps.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cuda_support.hpp"
#include "dllm/quant.hpp"

namespace dllm::test {

constexpr std::uint32_t kMany = 1300;  // rows that fill every multiprocessor

/// `sums_most`: row-split, with more inputs than outputs.
inline bool is_int8(DType type, bool sums_most) {
  return type == DType::q4_k || type == DType::q5_k ||
         (sums_most && (type == DType::q6_k || type == DType::q8_0));
}

/// Random blocks whose scales and minima are whole numbers of 2^-9, so few of them that weights
/// have 11 bits: packing them loses nothing before they are rounded to int8.
inline std::vector<std::byte> short_blocks(DType type, std::uint32_t n_rows, std::uint32_t n_cols,
                                           std::uint64_t seed) {
  std::vector<std::byte> bytes = random_blocks(type, n_rows, n_cols, seed);
  const std::size_t block_bytes = row_bytes(type, 256);
  const auto write_half = [&](std::size_t at) {  // 2^-9
    bytes[at] = std::byte{0x00};
    bytes[at + 1] = std::byte{0x18};
  };
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    if (type == DType::q6_k) {
      for (std::size_t i = 192; i < 208; ++i) bytes[at + i] &= std::byte{63};  // scales
      write_half(at + 208);
    } else {  // Q4_K, Q5_K
      write_half(at);
      write_half(at + 2);
    }
  }
  return bytes;
}

/// Such blocks where the type may become int8.
inline void add_weight(WeightFile& file, const std::string& name, DType type, std::uint32_t n_rows,
                       std::uint32_t n_cols, std::uint64_t seed) {
  if (type == DType::q4_k || type == DType::q5_k || type == DType::q6_k) {
    file.add_blocks(name, type, n_rows, n_cols, short_blocks(type, n_rows, n_cols, seed));
  } else {
    file.add(name, type, n_rows, n_cols, seed);
  }
}

inline std::vector<float> first_rows(const std::vector<float>& values, std::uint32_t n,
                                     std::uint32_t n_cols) {
  return {values.begin(), values.begin() + std::ptrdiff_t{n} * n_cols};
}

/// backend() has products=mixed.
class CudaMixed : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    f16_ = std::move(backend_);
    backend_ = make_products("mixed");
    int8_ = make_products("int8");
    if (!backend_ || !int8_) GTEST_SKIP() << "the GPU is older";
  }
  std::unique_ptr<Backend> f16_, int8_;
};

}  // namespace dllm::test
