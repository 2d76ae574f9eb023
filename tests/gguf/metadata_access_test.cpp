// Typed metadata: every value type, any integer width, and faults that name the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "error_of.hpp"
#include "gguf_writer.hpp"

namespace dllm {
namespace {

using test::GgufWriter;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const GgufFile> reopen(const GgufWriter& writer) {
  const test::TemporaryDirectory dir;
  writer.write(dir.path() / "m.gguf");
  return GgufFile::open(dir.path() / "m.gguf");
}

template <typename Action>
std::string fault_of(const Action& action) {
  return test::message_of(action, ErrorCode::bad_file);
}

GgufWriter one_of_each() {
  GgufWriter writer;
  writer.set("u8", std::uint8_t{255}).set("i8", std::int8_t{-128});
  writer.set("u16", std::uint16_t{65535}).set("i16", std::int16_t{-32768});
  writer.set("u32", std::uint32_t{4294967295U}).set("i32", std::int32_t{-2147483647 - 1});
  writer.set("u64", std::numeric_limits<std::uint64_t>::max());
  writer.set("i64", std::numeric_limits<std::int64_t>::min());
  writer.set("f32", 0.1F).set("f64", 0.1).set("yes", true).set("no", false);
  writer.set("text", std::string("caf\xc3\xa9\0!", 7)).set("empty", "");
  writer.set_array<std::uint8_t>("u8s", {0, 255}).set_array<std::int16_t>("i16s", {-1, 1});
  writer.set_array<float>("f32s", {0.5F, -0.0F}).set_array<double>("f64s", {1e300});
  writer.set_array<bool>("bools", {true, false, true});
  writer.set_array<std::string>("strings", {"a", "", "bc"}).set_array<std::int32_t>("none", {});
  return writer;
}

TEST(Metadata, KeepsEveryScalarType) {
  const auto file = reopen(one_of_each());
  EXPECT_EQ(std::get<std::uint64_t>(file->find("u8")->value), 255U);
  EXPECT_EQ(std::get<std::int64_t>(file->find("i8")->value), -128);
  EXPECT_EQ(std::get<std::uint64_t>(file->find("u16")->value), 65535U);
  EXPECT_EQ(std::get<std::int64_t>(file->find("i16")->value), -32768);
  EXPECT_EQ(file->get_u32("u32"), 4294967295U);
  EXPECT_EQ(std::get<std::int64_t>(file->find("i32")->value), -2147483648LL);
  EXPECT_EQ(std::get<std::uint64_t>(file->find("u64")->value), 18446744073709551615U);
  EXPECT_EQ(std::get<std::int64_t>(file->find("i64")->value),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(file->get_float("f32"), static_cast<double>(0.1F));
  EXPECT_EQ(file->get_float("f64"), 0.1);
  EXPECT_EQ(file->find_bool("yes"), true);
  EXPECT_EQ(file->find_bool("no"), false);
  EXPECT_EQ(file->get_string("text"), std::string_view("caf\xc3\xa9\0!", 7));
  EXPECT_EQ(file->get_string("empty"), "");
  EXPECT_EQ(file->metadata().size(), 21U);
  EXPECT_EQ(file->metadata()[0].key, "u8");  // file order
}

TEST(Metadata, KeepsEveryArrayType) {
  const auto file = reopen(one_of_each());
  const auto values = [&](std::string_view key) { return file->find_array(key)->values; };
  EXPECT_THAT(std::get<std::vector<std::uint64_t>>(values("u8s")), ElementsAre(0, 255));
  EXPECT_THAT(std::get<std::vector<std::int64_t>>(values("i16s")), ElementsAre(-1, 1));
  EXPECT_THAT(std::get<std::vector<double>>(values("f32s")), ElementsAre(0.5, -0.0));
  EXPECT_THAT(std::get<std::vector<double>>(values("f64s")), ElementsAre(1e300));
  EXPECT_THAT(std::get<std::vector<bool>>(values("bools")), ElementsAre(true, false, true));
  EXPECT_THAT(std::get<std::vector<std::string_view>>(values("strings")),
              ElementsAre("a", "", "bc"));
  EXPECT_EQ(file->find_array("none")->size(), 0U);
  EXPECT_EQ(file->find_array("bools")->element_type, MetadataType::boolean);
  EXPECT_EQ(file->find_array("absent"), nullptr);
}

TEST(Metadata, TakesIntegersOfAnyWidthWhereTheValueFits) {
  GgufWriter writer;
  writer.set("a", std::uint8_t{7}).set("b", std::int8_t{7}).set("c", std::uint16_t{7});
  writer.set("d", std::int16_t{7}).set("e", std::int32_t{7}).set("f", std::uint64_t{7});
  writer.set("g", std::int64_t{7});
  const auto file = reopen(writer);
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) EXPECT_EQ(file->get_u32(key), 7U);
}

TEST(Metadata, NamesKeyAndValueThatDoesNotFit) {
  const auto file = reopen(one_of_each());
  EXPECT_THAT(fault_of([&] { file->get_u32("i8"); }),
              AllOf(HasSubstr("\"i8\" is -128"), HasSubstr("0 to 4294967295")));
  EXPECT_THAT(fault_of([&] { file->get_u32("u64"); }),
              HasSubstr("\"u64\" is 18446744073709551615"));
  EXPECT_THAT(fault_of([&] { file->get_u32("i64"); }),
              HasSubstr("\"i64\" is -9223372036854775808"));
}

TEST(Metadata, NamesKeyAndBothTypesWhenTheKindDiffers) {
  const auto file = reopen(one_of_each());
  EXPECT_THAT(fault_of([&] { file->get_u32("f32"); }),
              AllOf(HasSubstr("\"f32\" is of type f32"), HasSubstr("expected an integer")));
  EXPECT_THAT(fault_of([&] { file->get_u32("yes"); }), HasSubstr("of type bool"));
  EXPECT_THAT(fault_of([&] { file->get_u32("strings"); }), HasSubstr("array of string"));
  EXPECT_THAT(fault_of([&] { file->get_float("u32"); }), HasSubstr("floating-point"));
  EXPECT_THAT(fault_of([&] { file->find_bool("u8"); }), HasSubstr("expected a bool"));
  EXPECT_THAT(fault_of([&] { file->get_string("f64"); }), HasSubstr("expected a string"));
  EXPECT_THAT(fault_of([&] { file->find_array("text"); }), HasSubstr("expected an array"));
}

TEST(Metadata, NamesAMissingKey) {
  const auto file = reopen(one_of_each());
  EXPECT_THAT(fault_of([&] { file->get_u32("llada.block_count"); }),
              AllOf(HasSubstr("\"llada.block_count\" is missing"), HasSubstr("m.gguf")));
  EXPECT_THAT(fault_of([&] { file->get_float("x"); }), HasSubstr("\"x\" is missing"));
  EXPECT_THAT(fault_of([&] { file->get_string("x"); }), HasSubstr("\"x\" is missing"));
  EXPECT_EQ(file->find_u32("x"), std::nullopt);
  EXPECT_EQ(file->find_float("x"), std::nullopt);
  EXPECT_EQ(file->find_bool("x"), std::nullopt);
  EXPECT_EQ(file->find_string("x"), std::nullopt);
}

TEST(Metadata, TakesAPerLayerArrayOfEqualValuesAsOne) {
  GgufWriter writer;
  writer.set("scalar", std::uint64_t{8}).set_array<std::int32_t>("equal", {8, 8, 8});
  writer.set_array<std::uint32_t>("varies", {8, 8, 4}).set_array<float>("floats", {8, 8, 8});
  writer.set_array<std::int64_t>("negative", {-1, -1, -1});
  const auto file = reopen(writer);
  EXPECT_EQ(file->find_u32_or_uniform_array("scalar", 3), 8U);
  EXPECT_EQ(file->find_u32_or_uniform_array("equal", 3), 8U);
  EXPECT_EQ(file->find_u32_or_uniform_array("absent", 3), std::nullopt);
  EXPECT_THAT(fault_of([&] { file->find_u32_or_uniform_array("equal", 2); }),
              AllOf(HasSubstr("array of 3"), HasSubstr("expected 2")));
  EXPECT_THAT(test::message_of([&] { file->find_u32_or_uniform_array("varies", 3); },
                               ErrorCode::unsupported),
              AllOf(HasSubstr("8 in layer 0"), HasSubstr("4 in layer 2")));
  EXPECT_THAT(fault_of([&] { file->find_u32_or_uniform_array("floats", 3); }),
              HasSubstr("array of f32"));
  EXPECT_THAT(fault_of([&] { file->find_u32_or_uniform_array("negative", 3); }),
              HasSubstr("is -1"));
}

}  // namespace
}  // namespace dllm
