// What a correct file reads as: versions, tensors of every type, layouts that are unusual but fine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "error_of.hpp"
#include "gguf_writer.hpp"

namespace dllm {
namespace {

using test::GgufWriter;

std::shared_ptr<const GgufFile> reopen(const GgufWriter& writer) {
  const test::TemporaryDirectory dir;  // an open file outlives its name
  writer.write(dir.path() / "m.gguf");
  return GgufFile::open(dir.path() / "m.gguf");
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(GgufFile, ReadsMetadataAndTensors) {
  GgufWriter writer;
  writer.set("general.architecture", "llada").set("llada.block_count", std::uint64_t{2});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  writer.add_tensor("a", DType::f32, {3, 2}, values).add_zeros("b", DType::q4_k, {256, 3});
  const auto file = reopen(writer);
  EXPECT_EQ(file->get_string("general.architecture"), "llada");
  EXPECT_EQ(file->get_u32("llada.block_count"), 2U);
  ASSERT_EQ(file->tensors().size(), 2U);
  const TensorInfo& a = file->tensor("a");
  EXPECT_EQ(a.shape, (std::vector<std::uint64_t>{3, 2}));
  EXPECT_EQ(a.n_elements(), 6U);
  EXPECT_EQ(a.shape_text(), "[3, 2]");
  ASSERT_EQ(file->data(a).size(), 24U);
  EXPECT_EQ(std::memcmp(file->data(a).data(), values.data(), 24), 0);
  EXPECT_EQ(file->tensor("b").bytes, 3U * 144U);
  EXPECT_EQ(file->file_bytes(), writer.to_bytes().size());
}

TEST(GgufFile, ReadsVersions2And3) {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufWriter writer;
    writer.version = version;
    writer.set("general.architecture", "dream").add_zeros("a", DType::f16, {8});
    EXPECT_EQ(reopen(writer)->version(), version);
  }
}

TEST(GgufFile, ReadsAFileWithNothingInIt) {
  const auto file = reopen(GgufWriter());
  EXPECT_TRUE(file->metadata().empty());
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_EQ(file->find("general.architecture"), nullptr);
  EXPECT_EQ(file->find_tensor("a"), nullptr);
}

TEST(GgufFile, LoadsEveryKnownTensorTypeDecodableOrNot) {
  GgufWriter writer;
  for (const DTypeInfo& info : all_dtypes()) {
    writer.add_zeros(std::string(info.name), info.dtype, {2 * info.block_size, 3});
  }
  const auto file = reopen(writer);
  for (const DTypeInfo& info : all_dtypes()) {
    const TensorInfo& tensor = file->tensor(info.name);
    EXPECT_EQ(tensor.dtype, info.dtype);
    EXPECT_EQ(tensor.bytes, 6 * info.block_bytes) << info.name;
    EXPECT_EQ(file->data(tensor).size(), tensor.bytes);
  }
}

TEST(GgufFile, HonoursTheAlignmentOfTheFile) {
  for (const std::uint32_t alignment : {1U, 8U, 64U, 4096U}) {
    GgufWriter writer;
    writer.alignment = alignment;
    writer.set("general.alignment", alignment);
    const std::vector<float> values = {7, 8, 9};
    writer.add_zeros("pad", DType::i8, {1}).add_tensor("a", DType::f32, {3}, values);
    const auto file = reopen(writer);
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ(file->tensor("a").offset, alignment);
    EXPECT_EQ(std::memcmp(file->data(file->tensor("a")).data(), values.data(), 12), 0);
  }
}

TEST(GgufFile, TakesTheAlignmentInAnyIntegerType) {
  GgufWriter writer;
  writer.alignment = 128;
  writer.set("general.alignment", std::int64_t{128}).add_zeros("a", DType::f32, {4});
  EXPECT_EQ(reopen(writer)->alignment(), 128U);
}

// Policy: any aligned offset that is inside the file and apart from the others.
TEST(GgufFile, AcceptsTensorDataInAnyOrderAndWithGaps) {
  GgufWriter writer;
  writer.add_zeros("last", DType::i8, {4}).add_zeros("first", DType::i8, {4});
  // One run of bytes behind both: "first" at 0, a gap, "last" at 64.
  writer.tensors[0].data = "AAAA" + std::string(60, '.') + "BBBB";
  writer.tensors[1].data = "";
  writer.tensor("last").offset = 64;
  writer.tensor("first").offset = 0;
  const auto file = reopen(writer);
  EXPECT_EQ(text_of(file->data(file->tensor("first"))), "AAAA");
  EXPECT_EQ(text_of(file->data(file->tensor("last"))), "BBBB");
}

TEST(GgufFile, AcceptsALastTensorWithoutPadding) {
  GgufWriter writer;
  writer.add_zeros("a", DType::f32, {3});
  std::string bytes = writer.to_bytes();
  bytes.resize(bytes.size() - 20);  // 12 bytes of data, 20 of padding
  const test::TemporaryDirectory dir;
  test::write_file(dir.path() / "m.gguf", bytes);
  EXPECT_EQ(GgufFile::open(dir.path() / "m.gguf")->tensor("a").bytes, 12U);
}

TEST(GgufFile, NamesMayHoldAnyBytes) {
  GgufWriter writer;
  const std::string odd("\xff\0name", 6);
  writer.set("key \xc3", true).add_zeros(odd, DType::f32, {1});
  const auto file = reopen(writer);
  EXPECT_NE(file->find_tensor(odd), nullptr);
  EXPECT_EQ(file->find_bool("key \xc3"), true);
}

TEST(GgufFile, FindsEachOfManyTensors) {
  GgufWriter writer;
  for (int i = 0; i < 2000; ++i) {
    writer.add_zeros("blk." + std::to_string(i * 7919 % 2000), DType::i8, {1});
  }
  const auto file = reopen(writer);
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "blk." + std::to_string(i);
    ASSERT_EQ(file->tensor(name).name, name);
  }
  EXPECT_EQ(file->tensors()[1].name, "blk.1919");  // file order is kept
}

TEST(GgufFile, NamesAMissingTensor) {
  GgufWriter writer;
  writer.add_zeros("a", DType::f32, {1});
  const auto file = reopen(writer);
  const Error error = test::error_of([&] { file->tensor("output.weight"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_file);
  EXPECT_THAT(error.what(), testing::HasSubstr("\"output.weight\" is missing"));
}

TEST(GgufFile, ReleasedPagesReadTheSameAgain) {
  GgufWriter writer;
  std::vector<float> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  writer.add_zeros("before", DType::i8, {5}).add_tensor("a", DType::f32, {1000, 100}, values);
  const auto file = reopen(writer);
  const auto bytes = file->data(file->tensor("a"));
  ASSERT_EQ(std::memcmp(bytes.data(), values.data(), bytes.size()), 0);
  file->release_pages(file->tensor("a"));
  file->release_pages(file->tensor("before"));  // smaller than a page: nothing to drop
  EXPECT_EQ(std::memcmp(bytes.data(), values.data(), bytes.size()), 0);
}

TEST(GgufFile, NamesTheTensorAndElementThatIsNotFinite) {
  GgufWriter writer;
  std::vector<float> values(3'000'000, 1.0F);
  writer.add_tensor("fine", DType::f32, {1000, 3000}, values);
  values[2'500'000] = std::numeric_limits<float>::quiet_NaN();
  writer.add_tensor("broken", DType::f32, {1000, 3000}, values);
  const auto file = reopen(writer);
  file->require_finite(file->tensor("fine"));
  const Error error = test::error_of([&] { file->require_finite(file->tensor("broken")); });
  EXPECT_THAT(error.what(), testing::HasSubstr("tensor \"broken\""));
  EXPECT_THAT(error.what(), testing::HasSubstr("element 2500000"));
}

}  // namespace
}  // namespace dllm
