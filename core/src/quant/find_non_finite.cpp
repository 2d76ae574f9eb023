#include <array>
#include <cstddef>
#include <cstring>

#include "dllm/quant.hpp"

namespace dllm {
namespace {

// An all-ones exponent: infinity or NaN.
template <typename Bits, Bits kExponent>
bool is_non_finite(const std::byte* at) {
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  return (bits & kExponent) == kExponent;
}

constexpr auto kHalf = is_non_finite<std::uint16_t, 0x7C00>;
constexpr auto kBrain = is_non_finite<std::uint16_t, 0x7F80>;
constexpr auto kSingle = is_non_finite<std::uint32_t, 0x7F800000>;
constexpr auto kDouble = is_non_finite<std::uint64_t, 0x7FF0000000000000>;

// Where a block of the type keeps floating-point numbers, and how to judge one.
struct Numbers {
  bool (*judge)(const std::byte*) = nullptr;
  std::size_t first = 0;
  std::size_t second = 0;  ///< equal to `first` where there is only one
};

Numbers numbers_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {kSingle, 0, 0};
    case DType::f64:
      return {kDouble, 0, 0};
    case DType::f16:
      return {kHalf, 0, 0};
    case DType::bf16:
      return {kBrain, 0, 0};
    case DType::q4_0:
      return {kHalf, offsetof(BlockQ4_0, d), offsetof(BlockQ4_0, d)};
    case DType::q4_1:
      return {kHalf, offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)};
    case DType::q5_0:
      return {kHalf, offsetof(BlockQ5_0, d), offsetof(BlockQ5_0, d)};
    case DType::q5_1:
      return {kHalf, offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)};
    case DType::q8_0:
      return {kHalf, offsetof(BlockQ8_0, d), offsetof(BlockQ8_0, d)};
    case DType::iq4_nl:
      return {kHalf, offsetof(BlockIq4Nl, d), offsetof(BlockIq4Nl, d)};
    case DType::q2_k:
      return {kHalf, offsetof(BlockQ2K, d), offsetof(BlockQ2K, dmin)};
    case DType::q3_k:
      return {kHalf, offsetof(BlockQ3K, d), offsetof(BlockQ3K, d)};
    case DType::q4_k:
      return {kHalf, offsetof(BlockQ4K, d), offsetof(BlockQ4K, dmin)};
    case DType::q5_k:
      return {kHalf, offsetof(BlockQ5K, d), offsetof(BlockQ5K, dmin)};
    case DType::q6_k:
      return {kHalf, offsetof(BlockQ6K, d), offsetof(BlockQ6K, d)};
    case DType::iq4_xs:
      return {kHalf, offsetof(BlockIq4Xs, d), offsetof(BlockIq4Xs, d)};
    default:
      return {};
  }
}

}  // namespace

std::optional<std::uint64_t> find_non_finite(DType dtype, std::span<const std::byte> bytes) {
  const Numbers numbers = numbers_of(dtype);
  if (numbers.judge == nullptr) return std::nullopt;
  const DTypeInfo& info = dtype_info(dtype);
  const std::size_t n_blocks = bytes.size() / info.block_bytes;
  for (std::size_t i = 0; i < n_blocks; ++i) {
    const std::byte* block = bytes.data() + i * info.block_bytes;
    if (numbers.judge(block + numbers.first) || numbers.judge(block + numbers.second)) {
      return i * info.block_size;
    }
  }
  return std::nullopt;
}

}  // namespace dllm
