// One broken file per fault: the error is one line that names the item and both values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "gguf_writer.hpp"

namespace dllm {
namespace {

using test::ByteSink;
using test::GgufWriter;

constexpr std::uint64_t kHuge = 1ULL << 60;
constexpr auto kArray = static_cast<std::uint32_t>(MetadataType::array);
constexpr auto kString = static_cast<std::uint32_t>(MetadataType::string);

// A small correct file: three keys, tensors "a" (F32 [4, 2], 32 bytes) and "b" (Q4_K [256, 1]).
GgufWriter valid() {
  GgufWriter writer;
  writer.set("general.architecture", "llada").set("llada.block_count", std::uint32_t{2});
  writer.set_array<std::int32_t>("tokenizer.ggml.token_type", {1, 1, 3});
  writer.add_zeros("a", DType::f32, {4, 2}).add_zeros("b", DType::q4_k, {256, 1});
  return writer;
}

struct Broken {
  std::string name;
  std::function<std::string()> bytes;
  std::vector<std::string> says;  ///< fragments of the message

  friend void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }
};

// What `change` does to the correct file.
Broken with(std::string name, const std::function<void(GgufWriter&)>& change,
            std::vector<std::string> says) {
  return {std::move(name),
          [change] {
            GgufWriter writer = valid();
            change(writer);
            return writer.to_bytes();
          },
          std::move(says)};
}

// A key whose value has this type id and these bytes.
Broken with_key(std::string name, std::uint32_t type, std::string value,
                std::vector<std::string> says) {
  return with(
      std::move(name), [=](GgufWriter& w) { w.set_raw("x.key", type, value); }, std::move(says));
}

std::string array_head(std::uint32_t element_type, std::uint64_t count) {
  return ByteSink().put(element_type).put(count).bytes();
}

// The correct file with an alignment that is no plain u32 written by set().
template <typename T>
Broken with_alignment(std::string name, T value, std::vector<std::string> says) {
  return with(
      std::move(name), [=](GgufWriter& w) { w.set("general.alignment", value); }, std::move(says));
}

Broken with_shape(std::string name, std::vector<std::uint64_t> shape,
                  std::vector<std::string> says) {
  return with(
      std::move(name), [=](GgufWriter& w) { w.tensor("a").shape = shape; }, std::move(says));
}

Broken starting_with(std::string name, std::string bytes, std::vector<std::string> says) {
  return {std::move(name), [bytes] { return bytes; }, std::move(says)};
}

std::vector<Broken> header_faults() {
  return {
      starting_with("Magic", "GGUX" + valid().to_bytes().substr(4), {"GGUX", "GGUF"}),
      starting_with("SwappedMagic", "FUGG" + valid().to_bytes().substr(4), {"bytes swapped"}),
      starting_with("OldFormat", "tjgg\1\0\0\0", {"GGJT"}),
      starting_with("Zip", std::string("PK\3\4", 4) + std::string(60, 'x'), {"zip"}),
      starting_with("LfsPointer", "version https://git-lfs.example/spec", {"git lfs pull"}),
      starting_with("WebPage", "<!DOCTYPE html><html></html>", {"web page"}),
      starting_with("OneByte", "G", {"GGUF"}),
      starting_with("MagicOnly", "GGUF", {"ends inside the version", "4 bytes needed, 0 left"}),
      with("Version0", [](auto& w) { w.version = 0; }, {"version 0", "2 and 3"}),
      with("Version1", [](auto& w) { w.version = 1; }, {"version 1", "2 and 3", "convert"}),
      with("Version4", [](auto& w) { w.version = 4; }, {"version 4", "2 and 3"}),
      with("BigEndian", [](auto& w) { w.version = 0x03000000; }, {"big-endian", "0x03000000"}),
      with("TensorCount2To60", [](auto& w) { w.n_tensors = kHuge; },
           {"tensor count", std::to_string(kHuge), "header"}),
      with("TensorCountNegative", [](auto& w) { w.n_tensors = ~0ULL; }, {"tensor count is -1"}),
      with("TensorCountTooHigh", [](auto& w) { w.n_tensors = 3; }, {"tensor entry 2"}),
      with("KeyCount2To60", [](auto& w) { w.n_keys = kHuge; },
           {"metadata count", std::to_string(kHuge)}),
      with("KeyCountNegative", [](auto& w) { w.n_keys = 1ULL << 63; }, {"metadata count is -"}),
      with("KeyCountTooLow", [](auto& w) { w.n_keys = 2; },
           {"tokenizer.ggml.token_type", "9 dimensions"}),
  };
}

std::vector<Broken> metadata_faults() {
  return {
      with("EmptyKey", [](auto& w) { w.set("", true); }, {"key is empty", "entry 3"}),
      with("KeyTooLong", [](auto& w) { w.set(std::string(65536, 'k'), true); },
           {"65536 bytes", "limit is 65535"}),
      with("DuplicateKey", [](auto& w) { w.set("llada.block_count", std::uint32_t{3}); },
           {"\"llada.block_count\" occurs twice", "entry 1", "entry 3"}),
      with_key("UnknownValueType", 13, "\1", {"x.key", "value type is 13", "0 to 12"}),
      with_key("HugeValueType", 0xFFFFFFFF, "\1", {"x.key", "4294967295"}),
      with_key("BadBool", 7, "\2", {"x.key", "bool is 2", "0 and 1"}),
      with_key("StringPastEnd", kString, ByteSink().put(kHuge).bytes(),
               {"x.key", std::to_string(kHuge), "bytes left"}),
      with_key("StringLengthWraps", kString, ByteSink().put(~0ULL).bytes(),
               {"x.key", "18446744073709551615"}),
      with_key("ArrayOfArrays", kArray, array_head(kArray, 1), {"x.key", "array of arrays"}),
      with_key("ArrayOfUnknownType", kArray, array_head(77, 1), {"x.key", "77", "0 to 12"}),
      with_key("ArrayCount2To60", kArray, array_head(4, kHuge),
               {"x.key", std::to_string(kHuge), "type u32", "at most"}),
      with_key("ArrayBytesWrap", kArray, array_head(10, 1ULL << 61), {"x.key", "type u64"}),
      with_key("StringArrayCount2To60", kArray, array_head(kString, kHuge), {"type string"}),
      with_key("BoolArrayBadElement", kArray, array_head(7, 2) + "\1\2", {"x.key", "bool is 2"}),
      with_key("StringInArrayPastEnd", kArray,
               array_head(kString, 2) + ByteSink().put_string("ok").put(kHuge).bytes(),
               {"x.key", "a string of the array", std::to_string(kHuge)}),
      {"StringOneByteShort",
       [] {
         const std::string bytes = GgufWriter().set("k", "abc").to_bytes();
         return bytes.substr(0, bytes.size() - 1);
       },
       {"\"k\"", "the string is 3 bytes long", "has 2 bytes left"}},
      {"NumberOneByteShort",
       [] {
         const std::string bytes = GgufWriter().set("k", std::uint32_t{1}).to_bytes();
         return bytes.substr(0, bytes.size() - 1);
       },
       {"\"k\"", "ends inside the value", "4 bytes needed, 3 left"}},
      {"KeyLengthPastEnd",
       [] {
         GgufWriter writer;
         writer.n_keys = 1;
         return writer.to_bytes() + ByteSink().put(kHuge).put_raw("general").bytes();
       },
       {"metadata entry 0", "the key is", std::to_string(kHuge), "7 bytes left"}},
      with_alignment("Alignment0", std::uint32_t{0},
                     {"general.alignment", "is 0", "powers of two"}),
      with_alignment("Alignment3", std::uint32_t{3}, {"general.alignment", "is 3"}),
      with_alignment("AlignmentHuge", std::uint32_t{1U << 31},
                     {"general.alignment", "2147483648", "1048576"}),
      with_alignment("AlignmentNegative", std::int32_t{-32}, {"general.alignment", "is -32"}),
      with_alignment("AlignmentFloat", 32.0F, {"general.alignment", "f32"}),
      with_alignment("AlignmentString", std::string("32"), {"general.alignment", "string"}),
  };
}

std::vector<Broken> tensor_faults() {
  return {
      with("EmptyTensorName", [](auto& w) { w.tensor("a").name = ""; },
           {"name is empty", "entry 0"}),
      with("TensorNameTooLong", [](auto& w) { w.tensor("a").name = std::string(64, 'n'); },
           {"64 bytes", "limit is 63"}),
      with("DuplicateTensor", [](auto& w) { w.tensor("b").name = "a"; },
           {"\"a\" occurs twice", "entry 0", "entry 1"}),
      with("Dimensions0", [](auto& w) { w.tensor("a").shape = {}; }, {"\"a\"", "0 dimensions"}),
      with("Dimensions5", [](auto& w) { w.tensor("a").shape = {4, 2, 1, 1, 1}; },
           {"\"a\"", "5 dimensions", "1 to 4"}),
      with("DimensionsHuge", [](auto& w) { w.tensor("a").n_dims = 0xFFFFFFFF; },
           {"\"a\"", "4294967295 dimensions"}),
      with_shape("DimensionZero", {4, 0}, {"\"a\"", "dimension 1 is 0"}),
      with_shape("DimensionNegative", {~0ULL, 1}, {"\"a\"", "dimension 0 is -1"}),
      with_shape("Product2To32Squared", {1ULL << 32, 1ULL << 32}, {"\"a\"", "2^63", "4294967296"}),
      with_shape("Product2To62Times4", {1ULL << 62, 4}, {"\"a\"", "2^63"}),
      with_shape("Product2To61Times8", {1ULL << 61, 8}, {"\"a\"", "2^63"}),
      with_shape("ProductOfFour", {1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16}, {"2^63"}),
      with_shape("BytesPass2To64", {1ULL << 62}, {"\"a\"", "2^64 bytes"}),
      with("TypeRemoved", [](auto& w) { w.tensor("a").type = 4; }, {"\"a\"", "type 4"}),
      with("TypeUnknown", [](auto& w) { w.tensor("a").type = 999; }, {"\"a\"", "type 999"}),
      with("RowNoMultipleOf256", [](auto& w) { w.tensor("b").shape = {128, 2}; },
           {"\"b\"", "128", "Q4_K", "256"}),
      with("RowNoMultipleOf32",
           [](auto& w) {
             w.tensor("b").shape = {16, 2};
             w.tensor("b").type = static_cast<std::uint32_t>(DType::q8_0);
           },
           {"\"b\"", "16", "Q8_0", "32"}),
      with("OffsetMisaligned", [](auto& w) { w.tensor("b").offset = 33; },
           {"\"b\"", "offset 33", "alignment 32"}),
      with("OffsetPastEnd", [](auto& w) { w.tensor("b").offset = 1U << 20; },
           {"\"b\"", "1048576", "end of the file"}),
      with("OffsetWraps", [](auto& w) { w.tensor("b").offset = ~0ULL - 31; },
           {"\"b\"", "18446744073709551584"}),
      with("DataPastEnd", [](auto& w) { w.tensor("b").shape = {256, 2}; },
           {"\"b\"", "288 bytes", "end of the file"}),
      with("SameOffset", [](auto& w) { w.tensor("b").offset = 0; }, {"\"b\"", "overlaps", "\"a\""}),
      with("Overlap", [](auto& w) { w.tensor("a").shape = {4, 3}; },
           {"\"b\"", "offset 32", "overlaps", "48 bytes"}),
      with("Contained",
           [](auto& w) {
             w.add_zeros("c", DType::f32, {8});
             w.tensor("c").offset = 64;
           },
           {"\"c\"", "overlaps", "\"b\""}),
      with("ControlBytesInName",
           [](auto& w) {
             w.tensor("a").type = 999;
             w.tensor("a").name = "a\n\x1b[2J\xff";
           },
           {"a\\x0A\\x1B[2J\\xFF", "type 999"}),
      with("DataMissing",
           [](auto& w) {
             for (auto& tensor : w.tensors) tensor.data.clear();
           },
           {"\"a\"", "end of the file"}),
  };
}

class BrokenFile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenFile, IsRefusedInOneLineThatNamesTheFault) {
  const test::TemporaryDirectory dir;
  const auto path = dir.path() / "broken.gguf";
  test::write_file(path, GetParam().bytes());
  try {
    GgufFile::open(path);
    FAIL() << "the file was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    const std::string message = error.what();
    for (const std::string& part : GetParam().says) EXPECT_THAT(message, testing::HasSubstr(part));
    EXPECT_THAT(message, testing::HasSubstr("broken.gguf"));
    EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
    EXPECT_FALSE(error.fix().empty());
  }
}

// The command line shows a broken file with the same error that running it gives.
TEST_P(BrokenFile, ScansWithTheSameErrorThatOpenThrows) {
  const test::TemporaryDirectory dir;
  const auto path = dir.path() / "broken.gguf";
  test::write_file(path, GetParam().bytes());
  const GgufScan scan = GgufFile::scan(path);
  ASSERT_TRUE(scan.error.has_value());
  try {
    GgufFile::open(path);
    FAIL() << "the file was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(scan.error->what(), error.what());
  }
}

const auto kNameOf = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Header, BrokenFile, testing::ValuesIn(header_faults()), kNameOf);
INSTANTIATE_TEST_SUITE_P(Metadata, BrokenFile, testing::ValuesIn(metadata_faults()), kNameOf);
INSTANTIATE_TEST_SUITE_P(Tensors, BrokenFile, testing::ValuesIn(tensor_faults()), kNameOf);

TEST(BrokenFiles, TheCorrectFileTheyStartFromLoads) {
  const test::TemporaryDirectory dir;
  valid().write(dir.path() / "m.gguf");
  EXPECT_EQ(GgufFile::open(dir.path() / "m.gguf")->tensors().size(), 2U);
}

}  // namespace
}  // namespace dllm
