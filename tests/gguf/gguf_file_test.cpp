// What a correct file reads as: every metadata type, tensors, lookups, paths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "dllm/gguf.hpp"
#include "gguf_writer.hpp"

namespace dllm {
namespace {

using test::GgufWriter;

TEST(GgufFile, ReadsMetadataAndTensors) {
  const test::TemporaryDirectory dir;
  GgufWriter writer;
  writer.set("general.architecture", "llada").set("llada.block_count", std::uint64_t{2});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  writer.add_tensor("a", DType::f32, {3, 2}, values).add_zeros("b", DType::q4_k, {256, 3});
  writer.write(dir.path() / "m.gguf");
  const auto file = GgufFile::open(dir.path() / "m.gguf");
  EXPECT_EQ(file->get_string("general.architecture"), "llada");
  EXPECT_EQ(file->get_u32("llada.block_count"), 2U);
  ASSERT_EQ(file->tensors().size(), 2U);
  const TensorInfo& a = file->tensor("a");
  EXPECT_EQ(a.shape, (std::vector<std::uint64_t>{3, 2}));
  ASSERT_EQ(file->data(a).size(), 24U);
  EXPECT_EQ(std::memcmp(file->data(a).data(), values.data(), 24), 0);
  EXPECT_EQ(file->tensor("b").bytes, 3U * 144U);
}

}  // namespace
}  // namespace dllm
