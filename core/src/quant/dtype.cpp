#include "dllm/dtype.hpp"

#include <algorithm>
#include <array>

#include "dllm/error.hpp"

namespace dllm {
namespace {

// id, name, elements per block, bytes per block; ids 4, 5, 31-33 and 36-38 were removed from ggml.
constexpr auto kDTypes = std::to_array<DTypeInfo>({
    {DType::f32, "F32", 1, 4},
    {DType::f16, "F16", 1, 2},
    {DType::q4_0, "Q4_0", 32, 18},
    {DType::q4_1, "Q4_1", 32, 20},
    {DType::q5_0, "Q5_0", 32, 22},
    {DType::q5_1, "Q5_1", 32, 24},
    {DType::q8_0, "Q8_0", 32, 34},
    {DType::q8_1, "Q8_1", 32, 36},
    {DType::q2_k, "Q2_K", 256, 84},
    {DType::q3_k, "Q3_K", 256, 110},
    {DType::q4_k, "Q4_K", 256, 144},
    {DType::q5_k, "Q5_K", 256, 176},
    {DType::q6_k, "Q6_K", 256, 210},
    {DType::q8_k, "Q8_K", 256, 292},
    {DType::iq2_xxs, "IQ2_XXS", 256, 66},
    {DType::iq2_xs, "IQ2_XS", 256, 74},
    {DType::iq3_xxs, "IQ3_XXS", 256, 98},
    {DType::iq1_s, "IQ1_S", 256, 50},
    {DType::iq4_nl, "IQ4_NL", 32, 18},
    {DType::iq3_s, "IQ3_S", 256, 110},
    {DType::iq2_s, "IQ2_S", 256, 82},
    {DType::iq4_xs, "IQ4_XS", 256, 136},
    {DType::i8, "I8", 1, 1},
    {DType::i16, "I16", 1, 2},
    {DType::i32, "I32", 1, 4},
    {DType::i64, "I64", 1, 8},
    {DType::f64, "F64", 1, 8},
    {DType::iq1_m, "IQ1_M", 256, 56},
    {DType::bf16, "BF16", 1, 2},
    {DType::tq1_0, "TQ1_0", 256, 54},
    {DType::tq2_0, "TQ2_0", 256, 66},
    {DType::mxfp4, "MXFP4", 32, 17},
    {DType::nvfp4, "NVFP4", 64, 36},
    {DType::q1_0, "Q1_0", 128, 18},
    {DType::q2_0, "Q2_0", 64, 18},
});

}  // namespace

const DTypeInfo* find_dtype(std::uint32_t raw_id) noexcept {
  const auto found = std::ranges::lower_bound(
      kDTypes, raw_id, {}, [](const DTypeInfo& i) { return static_cast<std::uint32_t>(i.dtype); });
  const bool known = found != kDTypes.end() && static_cast<std::uint32_t>(found->dtype) == raw_id;
  return known ? &*found : nullptr;
}

const DTypeInfo& dtype_info(DType dtype) {
  const DTypeInfo* info = find_dtype(static_cast<std::uint32_t>(dtype));
  DLLM_ASSERT(info != nullptr);
  return *info;
}

std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }

std::uint64_t row_bytes(DType dtype, std::uint64_t n_elements) {
  const DTypeInfo& info = dtype_info(dtype);
  DLLM_ASSERT(n_elements % info.block_size == 0);
  return n_elements / info.block_size * info.block_bytes;
}

std::span<const DTypeInfo> all_dtypes() noexcept { return kDTypes; }

}  // namespace dllm
