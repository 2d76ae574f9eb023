// `inspect`: strict JSON whatever is in the file, and what can be listed of a broken one.
#include "dllm/inspect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "dllm/error.hpp"
#include "gguf_writer.hpp"

namespace dllm {
namespace {

using nlohmann::json;
using test::GgufWriter;
using testing::HasSubstr;
using testing::Not;

GgufScan scan_of(const std::string& bytes) {
  const test::TemporaryDirectory dir;
  test::write_file(dir.path() / "m.gguf", bytes);
  return GgufFile::scan(dir.path() / "m.gguf");
}

json json_of(const GgufWriter& writer) {
  const GgufScan scan = scan_of(writer.to_bytes());
  EXPECT_FALSE(scan.error.has_value());
  EXPECT_EQ(inspect_json(scan), inspect_json(*scan.file));
  return json::parse(inspect_json(scan));
}

GgufWriter sample() {
  GgufWriter writer;
  writer.set("general.architecture", "llada").set("llada.block_count", std::uint32_t{2});
  writer.add_zeros("token_embd.weight", DType::q4_k, {256, 3});
  writer.add_zeros("output_norm.weight", DType::f32, {256}).add_zeros("b", DType::f32, {4});
  return writer;
}

TEST(InspectJson, HoldsTheFieldsProgramsRelyOn) {
  const json j = json_of(sample());
  EXPECT_EQ(j["version"], 3);
  EXPECT_EQ(j["alignment"], 32);
  EXPECT_EQ(j["file_bytes"], sample().to_bytes().size());
  EXPECT_EQ(j["metadata"]["general.architecture"], "llada");
  EXPECT_EQ(j["metadata"]["llada.block_count"], 2);
  EXPECT_EQ(j["type_counts"], json({{"F32", 2}, {"Q4_K", 1}}));
  EXPECT_EQ(j["tensors"][1], json({{"name", "output_norm.weight"},
                                   {"type", "F32"},
                                   {"shape", {256}},
                                   {"offset", 448},
                                   {"bytes", 1024}}));
  EXPECT_EQ(j["tensors"][0]["shape"], json({256, 3}));
  EXPECT_EQ(j["parts"][0]["file"], "m.gguf");
  EXPECT_FALSE(j.contains("error"));
}

TEST(InspectJson, CutsLongArraysAndKeepsTheirLength) {
  GgufWriter writer;
  writer.set_array<std::int32_t>("short", std::vector<std::int32_t>(16, 5));
  writer.set_array<std::string>("long", std::vector<std::string>(1000, "tok"));
  const json j = json_of(writer);
  EXPECT_EQ(j["metadata"]["short"], json(std::vector<int>(16, 5)));
  EXPECT_EQ(j["metadata"]["long"]["type"], "string");
  EXPECT_EQ(j["metadata"]["long"]["length"], 1000);
  EXPECT_EQ(j["metadata"]["long"]["first"].size(), 16U);
}

TEST(InspectJson, CutsLongStrings) {
  GgufWriter writer;
  writer.set("template", std::string(65536, 'x')).set("longer", std::string(65537, 'x'));
  const json j = json_of(writer);
  EXPECT_EQ(j["metadata"]["template"].get<std::string>().size(), 65536U);
  EXPECT_EQ(j["metadata"]["longer"]["bytes"], 65537);
  EXPECT_EQ(j["metadata"]["longer"]["first"].get<std::string>().size(), 65536U);
}

TEST(InspectJson, StaysValidWithBytesThatAreNoUtf8) {
  GgufWriter writer;
  writer.set("bad", std::string("a\xff\xc3z\"\\\n\0b", 9)).set("key\xfe", true);
  writer.set_array<std::string>("tokens", {"\xe2\x82", "ok"}).add_zeros("t\xff", DType::f32, {1});
  const json j = json_of(writer);
  EXPECT_EQ(j["metadata"]["bad"], std::string("a\xef\xbf\xbd\xef\xbf\xbdz\"\\\n\0b", 13));
  EXPECT_EQ(j["metadata"]["key\xef\xbf\xbd"], true);
  EXPECT_EQ(j["tensors"][0]["name"], "t\xef\xbf\xbd");
}

TEST(InspectJson, StaysValidWithFloatsThatJsonLacks) {
  GgufWriter writer;
  writer.set("nan", std::numeric_limits<float>::quiet_NaN());
  writer.set("inf", std::numeric_limits<double>::infinity());
  writer.set_array<float>("list", {-std::numeric_limits<float>::infinity(), 0.5F});
  const json j = json_of(writer);
  EXPECT_EQ(j["metadata"]["nan"], "NaN");
  EXPECT_EQ(j["metadata"]["inf"], "Infinity");
  EXPECT_EQ(j["metadata"]["list"], json({"-Infinity", 0.5}));
}

TEST(InspectJson, WritesNumbersExactly) {
  GgufWriter writer;
  writer.set("eps", 1e-5F).set("u64", ~0ULL).set("i64", std::numeric_limits<std::int64_t>::min());
  writer.set("f64", 0.1).set("max", std::numeric_limits<float>::max());
  const GgufScan scan = scan_of(writer.to_bytes());
  const std::string text = inspect_json(scan);
  EXPECT_THAT(text, HasSubstr("\"eps\":1e-05"));
  EXPECT_THAT(text, HasSubstr("18446744073709551615"));
  EXPECT_THAT(text, HasSubstr("-9223372036854775808"));
  const json j = json::parse(text);
  EXPECT_EQ(j["metadata"]["max"].get<float>(), std::numeric_limits<float>::max());
  EXPECT_EQ(j["metadata"]["f64"], 0.1);
}

TEST(InspectText, ListsKeysTypesAndEveryTensor) {
  const std::string text = inspect_text(scan_of(sample().to_bytes()));
  for (const char* part : {"GGUF version 3", "alignment 32", "metadata (2 keys)", "\"llada\"",
                           "tensor types", "Q4_K", "tensors (3)", "token_embd.weight", "[256, 3]",
                           "432 bytes at 0", "output_norm.weight", "1024 bytes at 448"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(InspectText, SendsNoControlBytesToATerminal) {
  GgufWriter writer;
  writer.set("a", "x\x1b[31m\ny\xc2\x9b").set("k\x07", true).add_zeros("t\r", DType::f32, {1});
  const std::string text = inspect_text(scan_of(writer.to_bytes()));
  EXPECT_THAT(text, HasSubstr("x\\x1B[31m\\x0Ay\\xC2\\x9B"));
  EXPECT_THAT(text, HasSubstr("k\\x07"));
  EXPECT_THAT(text, HasSubstr("t\\x0D"));
  for (const char c : {'\x1b', '\x07', '\r', '\x9b'}) EXPECT_EQ(text.find(c), text.npos);
}

TEST(InspectText, ShowsTypesThisBuildCannotDecode) {
  GgufWriter writer = sample();
  writer.add_zeros("odd", DType::iq2_xxs, {256});
  const GgufScan scan = scan_of(writer.to_bytes());
  EXPECT_FALSE(scan.error.has_value());
  EXPECT_THAT(inspect_text(scan), HasSubstr("IQ2_XXS"));
}

TEST(InspectBrokenFile, ListsAllOfAFileWithoutItsData) {
  const std::string bytes = sample().to_bytes();
  const GgufScan scan = scan_of(bytes.substr(0, bytes.size() - 1000));
  ASSERT_TRUE(scan.error.has_value());
  EXPECT_EQ(scan.file->tensors().size(), 3U);
  EXPECT_EQ(scan.file->metadata().size(), 2U);
  const json j = json::parse(inspect_json(scan));
  EXPECT_THAT(j["error"].get<std::string>(), HasSubstr("end of the file"));
  EXPECT_EQ(j["tensors"].size(), 3U);
}

TEST(InspectBrokenFile, NeverHandsOutDataOutsideTheFile) {
  const std::string bytes = sample().to_bytes();
  const GgufScan scan = scan_of(bytes.substr(0, bytes.size() - 1000));
  EXPECT_THROW(scan.file->data(scan.file->tensor("b")), Error);
  EXPECT_EQ(scan.file->data(scan.file->tensor("token_embd.weight")).size(), 432U);
  scan.file->release_pages(scan.file->tensor("b"));
}

TEST(InspectBrokenFile, ListsTheKeysBeforeALyingTensorCount) {
  GgufWriter writer = sample();
  writer.n_tensors = 1ULL << 60;
  const GgufScan scan = scan_of(writer.to_bytes());
  ASSERT_TRUE(scan.error.has_value());
  EXPECT_THAT(scan.error->what(), HasSubstr("1152921504606846976"));
  EXPECT_EQ(scan.file->metadata().size(), 2U);
  EXPECT_EQ(scan.file->tensors().size(), 3U);
}

TEST(InspectBrokenFile, ListsTensorsOfUnknownTypeByNumber) {
  GgufWriter writer = sample();
  writer.tensor("b").type = 999;
  const GgufScan scan = scan_of(writer.to_bytes());
  ASSERT_TRUE(scan.error.has_value());
  EXPECT_THAT(inspect_text(scan), HasSubstr("type 999"));
  EXPECT_EQ(json::parse(inspect_json(scan))["type_counts"]["type 999"], 1);
}

TEST(InspectBrokenFile, ListsTheFirstValueOfADuplicateKey) {
  GgufWriter writer = sample();
  writer.set("llada.block_count", std::uint32_t{9});
  const GgufScan scan = scan_of(writer.to_bytes());
  ASSERT_TRUE(scan.error.has_value());
  EXPECT_EQ(json::parse(inspect_json(scan))["metadata"]["llada.block_count"], 2);
}

TEST(InspectBrokenFile, AFileThatCannotBeOpenedHasOnlyAnError) {
  const GgufScan scan = GgufFile::scan("no-such-folder/m.gguf");
  EXPECT_EQ(scan.file, nullptr);
  EXPECT_EQ(inspect_text(scan), "");
  EXPECT_THAT(json::parse(inspect_json(scan))["error"].get<std::string>(), HasSubstr("No such"));
}

TEST(InspectBrokenFile, AFileThatIsNoGgufHasOnlyAnError) {
  const GgufScan scan = scan_of("PK\3\4 something else entirely");
  ASSERT_TRUE(scan.error.has_value());
  EXPECT_THAT(inspect_text(scan), Not(HasSubstr("something")));
}

}  // namespace
}  // namespace dllm
