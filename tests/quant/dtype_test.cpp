// Type table and the faults of decode_row.
#include "dllm/dtype.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "dllm/error.hpp"
#include "dllm/quant.hpp"
#include "error_of.hpp"

namespace dllm {
namespace {

TEST(DTypes, RemovedAndUnknownIdsAreNoTypes) {
  for (const std::uint32_t id : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U, 43U, 99U, 0xFFFFFFFFU}) {
    EXPECT_EQ(find_dtype(id), nullptr) << id;
  }
}

TEST(DTypes, EveryKnownIdIsFoundUnderItsOwnNumber) {
  EXPECT_EQ(all_dtypes().size(), 35U);
  for (const DTypeInfo& info : all_dtypes()) {
    const DTypeInfo* found = find_dtype(static_cast<std::uint32_t>(info.dtype));
    ASSERT_NE(found, nullptr) << info.name;
    EXPECT_EQ(found->name, info.name);
  }
}

// Bits per weight as published for llama.cpp: an independent check of block and byte counts.
TEST(DTypes, SizesGiveThePublishedBitsPerWeight) {
  const std::vector<std::pair<DType, double>> published = {
      {DType::f32, 32},         {DType::f16, 16},         {DType::bf16, 16},
      {DType::q4_0, 4.5},       {DType::q4_1, 5},         {DType::q5_0, 5.5},
      {DType::q5_1, 6},         {DType::q8_0, 8.5},       {DType::q2_k, 2.625},
      {DType::q3_k, 3.4375},    {DType::q4_k, 4.5},       {DType::q5_k, 5.5},
      {DType::q6_k, 6.5625},    {DType::iq2_xxs, 2.0625}, {DType::iq2_xs, 2.3125},
      {DType::iq3_xxs, 3.0625}, {DType::iq4_nl, 4.5},     {DType::iq4_xs, 4.25},
      {DType::iq1_m, 1.75}};
  for (const auto& [dtype, bits] : published) {
    const DTypeInfo& info = dtype_info(dtype);
    EXPECT_EQ(8.0 * info.block_bytes / info.block_size, bits) << info.name;
  }
}

TEST(DTypes, RowBytesCountsWholeBlocks) {
  EXPECT_EQ(row_bytes(DType::q4_k, 4096), 16U * 144U);
  EXPECT_EQ(row_bytes(DType::f32, 7), 28U);
  EXPECT_THROW(row_bytes(DType::q4_k, 100), Error);
}

TEST(DecodeRow, NamesATypeWithoutDecoder) {
  std::vector<std::byte> bytes(66);
  std::vector<float> out(256);
  EXPECT_FALSE(can_decode(DType::iq2_xxs));
  const Error error = test::error_of([&] { decode_row(DType::iq2_xxs, bytes, out); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_THAT(error.what(), testing::HasSubstr("IQ2_XXS"));
  EXPECT_THAT(error.fix(), testing::HasSubstr("Q4_K"));
}

TEST(DecodeRow, RefusesSizesThatDisagree) {
  std::vector<std::byte> bytes(18);
  std::vector<float> out(64);
  EXPECT_THROW(decode_row(DType::q4_0, bytes, out), Error);
  EXPECT_THROW(decode_row(DType::q4_0, bytes, std::span(out).first(31)), Error);
}

TEST(DecodeRow, ReadsBlocksAtAnyAddress) {
  std::vector<std::byte> bytes(3 * 18 + 1);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 50);
  const std::vector<std::byte> moved(bytes.begin() + 1, bytes.end());
  std::vector<float> odd(96);
  std::vector<float> even(96);
  decode_row(DType::q4_0, std::span(bytes).subspan(1), odd);
  decode_row(DType::q4_0, moved, even);
  EXPECT_EQ(odd, even);
}

TEST(DecodeRow, AnEmptyRowIsNoFault) { EXPECT_NO_THROW(decode_row(DType::q4_k, {}, {})); }

}  // namespace
}  // namespace dllm
