// What a model takes, by arithmetic alone: no GPU is asked.
#include "weight_sizes.hpp"

#include <gtest/gtest.h>

#include "dllm/quant.hpp"

namespace dllm::test {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

TensorInfo tensor_of(DType dtype, std::vector<std::uint64_t> shape) {
  TensorInfo tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes =
      row_bytes(dtype, tensor.shape[0]) * (tensor.shape.size() < 2 ? 1 : tensor.shape[1]);
  return tensor;
}

std::uint64_t needed(const std::vector<TensorInfo>& tensors,
                     WeightRole role = WeightRole::column_split,
                     cuda::Products products = cuda::Products::f16) {
  std::vector<PlannedImport> imports;
  for (const TensorInfo& tensor : tensors) imports.push_back({&tensor, role});
  return cuda::room_needed(imports, products);
}

// 256 x 256 Q4_K: 64 units a row of blocks, 16 of 640 bytes for 1,024 weights (5 bits each); the
// upload buffer holds all 256 rows of 144 bytes.
TEST(CudaRoom, OfAMatrixIsItsPackedFormAndTheUploadBuffer) {
  EXPECT_EQ(needed({tensor_of(DType::q4_k, {256, 256})}), 256 * 256 * 5 / 8 + 256 * 144);
  EXPECT_EQ(needed({tensor_of(DType::q6_k, {256, 64})}), 256 * 64 * 9 / 8 + 64 * 210);
  EXPECT_EQ(needed({tensor_of(DType::f16, {64, 64})}), 2 * 64 * 64 * 2);
  // F32 weights become binary16; rows and inputs are filled up to 64.
  EXPECT_EQ(needed({tensor_of(DType::f32, {65, 1})}), 64 * 128 * 2 + 65 * 4);
}

TEST(CudaRoom, OfTablesAndVectorsIsThatOfTheFile) {
  EXPECT_EQ(needed({tensor_of(DType::q4_k, {256, 256})}, WeightRole::embedding), 256 * 144);
  EXPECT_EQ(needed({tensor_of(DType::f32, {100})}), 400);
}

// A buffer of 64 MiB serves all matrices that need as much or more; large ones take whole pages.
TEST(CudaRoom, OfAModelCountsEveryWeightAndTheLargestUploadBufferOnce) {
  const TensorInfo large = tensor_of(DType::f16, {4096, 12288});  // 96 MiB, 8,192 rows at once
  EXPECT_EQ(needed({large}), (96 + 64) * kMiB);
  EXPECT_EQ(needed({large, large, tensor_of(DType::f16, {64, 64})}),
            (2 * 96 + 64) * kMiB + 64 * 64 * 2);
  const TensorInfo odd = tensor_of(DType::f16, {1024, 1088});  // 2.125 MiB: two pages
  EXPECT_EQ(needed({odd}), 2 * 4 * kMiB);
}

// 8 bits a weight and 32 for 128 of them, rows filled up to 64; the largest packed matrix is there
// while it is rounded.
TEST(CudaRoom, OfInt8WeightsIsTheirOwnAndTheLargestPackedMatrixOnce) {
  const TensorInfo small = tensor_of(DType::q4_k, {256, 64});
  const TensorInfo large = tensor_of(DType::q6_k, {512, 100});
  const std::uint64_t int8 = 64 * 256 + 64 * 2 * 4 + 128 * 512 + 128 * 4 * 4;
  EXPECT_EQ(needed({small, large, small}, WeightRole::column_split, cuda::Products::int8),
            int8 + 64 * 256 + 64 * 2 * 4 + 128 * 512 * 9 / 8 + 100 * 420);
  EXPECT_EQ(needed({small}, WeightRole::embedding, cuda::Products::int8), 64 * 144);
}

// Some matrices as int8, made from one packed matrix at a time, the others packed.
TEST(CudaRoom, OfMixedWeightsIsThatOfEachMatrix) {
  const TensorInfo int8 = tensor_of(DType::q4_k, {256, 64});
  const TensorInfo f16 = tensor_of(DType::q5_0, {512, 100});
  const std::uint64_t both = 64 * 256 + 64 * 2 * 4 + needed({f16}) - 100 * 352;
  EXPECT_EQ(needed({int8, f16}, WeightRole::column_split, cuda::Products::mixed),
            both + 64 * 256 * 5 / 8 + 100 * 352);
  EXPECT_EQ(needed({f16}, WeightRole::column_split, cuda::Products::mixed), needed({f16}));
  EXPECT_EQ(needed({int8}, WeightRole::head_split, cuda::Products::mixed), needed({int8}));
  EXPECT_EQ(needed({int8}, WeightRole::column_split, cuda::Products::mixed),
            needed({int8}, WeightRole::column_split, cuda::Products::int8));
}

// What docs/accuracy.md allows: not q, k and v; of other matrices two types, of those that have
// more inputs than outputs and sum what was split, two more.
TEST(CudaProducts, AreMixedAsTheirErrorsAllow) {
  using cuda::Products;
  using cuda::Way;
  const auto way = [](Products products, DType type, WeightRole role, std::uint64_t n_in) {
    return cuda::way_of(products, tensor_of(type, {n_in, 512}), role);
  };
  for (const DType type : {DType::q2_k, DType::q3_k, DType::q4_0, DType::q4_1, DType::q4_k,
                           DType::q5_0, DType::q5_1, DType::q5_k, DType::q6_k, DType::q8_0,
                           DType::iq4_nl, DType::iq4_xs, DType::f16, DType::bf16, DType::f32}) {
    SCOPED_TRACE(dtype_name(type));
    const bool is_int8 = type == DType::q4_k || type == DType::q5_k;
    const bool may_be = is_int8 || type == DType::q6_k || type == DType::q8_0;
    for (const std::uint64_t n_in : {256U, 512U, 768U}) {
      for (const WeightRole role :
           {WeightRole::head_split, WeightRole::column_split, WeightRole::row_split}) {
        EXPECT_EQ(way(Products::f16, type, role, n_in), Way::f16);
        EXPECT_EQ(way(Products::int8, type, role, n_in), Way::int8);
      }
      EXPECT_EQ(way(Products::mixed, type, WeightRole::head_split, n_in), Way::f16);
      EXPECT_EQ(way(Products::mixed, type, WeightRole::column_split, n_in),
                is_int8 ? Way::int8 : Way::f16);
      EXPECT_EQ(way(Products::mixed, type, WeightRole::row_split, n_in),
                (n_in > 512 ? may_be : is_int8) ? Way::int8 : Way::f16);
    }
  }
}

TEST(CudaRoom, AvailableIsWhatIsFreeOrWhatTheLimitLeaves) {
  const cuda::DeviceFree memory = {.free_bytes = 60, .total_bytes = 100};  // 40 in use, by anyone
  EXPECT_EQ(cuda::room_available(memory, 0), 60);
  EXPECT_EQ(cuda::room_available(memory, 70), 30);
  EXPECT_EQ(cuda::room_available(memory, 40), 0);
  EXPECT_EQ(cuda::room_available(memory, 30), 0);    // less than is in use already
  EXPECT_EQ(cuda::room_available(memory, 500), 60);  // more than there is
}

}  // namespace
}  // namespace dllm::test
