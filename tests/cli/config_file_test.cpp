// Config files: reading, quoting, refusals with file and line.
#include "arguments/config_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "expect_refusal.hpp"

namespace dllm::cli {
namespace {

std::vector<ConfigEntry> parse(const std::string& text) {
  std::istringstream in(text);
  return parse_config(in, "x.cfg");
}

std::string value_of(const std::string& text) {
  const auto entries = parse("key = " + text + "\n");
  return entries.size() == 1 ? entries.front().value : "no single entry";
}

// A config file in a folder of its own, gone with the test.
class ConfigFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path write(const std::string& text) {
    const auto path = folder_ / "run.cfg";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(ConfigText, ReadsKeysSectionsAndComments) {
  const auto entries = parse(
      "\xEF\xBB\xBF# head\n\nmodel = m.gguf   # tail\r\n[sampler]\nsteps=3\n"
      " [backend] # here\n threads\t=\t2 \n");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].key, "model");
  EXPECT_EQ(entries[0].value, "m.gguf");
  EXPECT_EQ(entries[0].line, 3);
  EXPECT_EQ(entries[1].section, "sampler");
  EXPECT_EQ(entries[1].value, "3");
  EXPECT_EQ(entries[2].section, "backend");
  EXPECT_EQ(entries[2].key, "threads");
  EXPECT_EQ(entries[2].value, "2");
}

TEST(ConfigText, HashInsideAWordIsNoComment) {
  EXPECT_EQ(value_of("Is C# good? # no"), "Is C# good?");
  EXPECT_EQ(value_of("# nothing"), "");
  EXPECT_EQ(value_of("\"a # b\" # c"), "a # b");
}

TEST(ConfigText, QuotedValuesKeepEverything) {
  EXPECT_EQ(value_of(R"("  a\n\t\"b\"\\ \x41 ")"), "  a\n\t\"b\"\\ A ");
  EXPECT_EQ(value_of(R"("")"), "");
  EXPECT_EQ(value_of(R"(a\nb)"), R"(a\nb)") << "bare values are taken as they are";
}

TEST(ConfigText, RefusesWithFileAndLine) {
  expect_refusal([] { parse("a = 1\nnonsense\n"); }, {"x.cfg:2", "'nonsense'", "key = value"});
  expect_refusal([] { parse("a = \"open\n"); }, {"x.cfg:1", "no closing one"});
  expect_refusal([] { parse("a = \"b\" c\n"); }, {"x.cfg:1", "after the closing quote", "'c'"});
  expect_refusal([] { parse("[samplr]\n"); }, {"x.cfg:1", "samplr", "[sampler]"});
  expect_refusal([] { parse("[sampler\n"); }, {"x.cfg:1", "unknown section"});
  expect_refusal([] { parse("= 3\n"); }, {"x.cfg:1"});
}

TEST(ConfigText, AnyTextReadsBackAsWritten) {
  std::mt19937 random(7);
  const std::string alphabet("ab# \t\n\r\"\\x41=[]\x01\x7F\x80\xC3\xA9\0", 22);
  for (int round = 0; round < 5000; ++round) {
    std::string value;
    const std::size_t length = random() % 8;
    for (std::size_t i = 0; i < length; ++i) value += alphabet[random() % alphabet.size()];
    EXPECT_EQ(value_of(config_value(value) + "  # origin"), value) << config_value(value);
  }
}

TEST_F(ConfigFile, TakesTheOptionsOfTheCommandLine) {
  const auto given =
      read_config(write("temp = 0.5\nn_predict = 9\nno-chat = true\n[sampler]\nx-y = 1\n"));
  ASSERT_EQ(given.size(), 4u);
  EXPECT_EQ(given[0].key, "sampler.temperature");
  EXPECT_EQ(given[1].key + "=" + given[1].value, "predict=9");
  EXPECT_EQ(given[2].key + "=" + given[2].value, "chat=false");
  EXPECT_EQ(given[3].key, "sampler.x_y");
}

TEST_F(ConfigFile, RelativePathsStartAtTheFile) {
  const auto given = read_config(write("model = sub/m.gguf\nfile = -\nplugin-dir = /abs\n"));
  EXPECT_EQ(std::filesystem::path(given[0].value), folder_ / "sub/m.gguf");
  EXPECT_EQ(given[1].value, "-");
  EXPECT_EQ(given[2].value, "/abs");
}

TEST_F(ConfigFile, RefusesUnknownKeysAndBadValuesByLine) {
  const auto refuse = [&](const std::string& text, std::vector<std::string> parts) {
    const auto path = write(text);
    parts.push_back(path.string());
    expect_refusal([&] { read_config(path); }, parts);
  };
  refuse("\nstpes = 4\n", {":2", "'stpes'", "'steps'"});
  refuse("steps = 4x\n", {":1", "'4x'"});
  refuse("config = other.cfg\n", {":1", "'config'", "command line"});
  refuse("set = a=b\n", {":1", "[sampler]"});
  expect_refusal([&] { read_config(folder_); }, {"directory"});
  expect_refusal([&] { read_config(folder_ / "none.cfg"); }, {"none.cfg", "No such file"});
}

}  // namespace
}  // namespace dllm::cli
