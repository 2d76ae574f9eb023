// Precedence of the sources, and what one source may not say.
#include "arguments/settings.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "arguments/environment.hpp"
#include "arguments/load_settings.hpp"
#include "expect_refusal.hpp"

namespace dllm::cli {
namespace {

// Environment of a process: NAME=VALUE entries and the null that ends them.
class Environment {
 public:
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {
    for (const std::string& entry : entries_) pointers_.push_back(entry.c_str());
    pointers_.push_back(nullptr);
  }
  const char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<const char*> pointers_;
};

class Precedence : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / "dllm"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Settings load(const std::vector<std::string>& arguments,
                std::vector<std::string> variables = {}) {
    variables.push_back("XDG_CONFIG_HOME=" + folder_.string());
    return load_settings(kRun, arguments, Environment(variables).get()).settings;
  }
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Precedence, CommandLineThenEnvironmentThenLaterConfigThenUserFileThenDefault) {
  const std::string a = write("a.cfg", "n-predict = 3\n");
  const std::string b = write("b.cfg", "predict = 4\n");
  const std::vector<std::string> configs{"--config", b, "--config", a};
  EXPECT_EQ(load({}).integer("predict"), 128);
  write("dllm/config.cfg", "predict = 5\n");
  EXPECT_EQ(load({}).integer("predict"), 5);
  EXPECT_EQ(load({"--config", a, "--config", b}).integer("predict"), 4);
  EXPECT_EQ(load(configs).integer("predict"), 3);
  EXPECT_EQ(load(configs, {"DLLM_PREDICT=2"}).integer("predict"), 2);
  EXPECT_EQ(load({"--config", a, "-n", "1"}, {"DLLM_N_PREDICT=2"}).integer("predict"), 1);
  EXPECT_EQ(load({}, {"DLLM_CONFIG=" + b}).integer("predict"), 4);
  EXPECT_EQ(load({"--config", a}, {"DLLM_CONFIG=" + b}).integer("predict"), 3);
}

TEST_F(Precedence, SugarSectionAndSetAreOneOption) {
  const std::string config = write("a.cfg", "[sampler]\nsteps = 3\n");
  const auto steps = [&](const std::vector<std::string>& arguments) {
    return load(arguments).plugin_options(Owner::sampler).at("steps").values.front();
  };
  EXPECT_EQ(steps({"--config", config}), "3");
  EXPECT_EQ(steps({"--config", config, "--steps", "4"}), "4");
  EXPECT_EQ(steps({"--config", config, "--set", "steps=5"}), "5");
  expect_refusal([&] { load({"--steps", "4", "--set", "steps=5"}); },
                 {"--steps and --set steps", "given twice", "'4' and '5'"});
}

TEST_F(Precedence, AnOptionTwiceInOneSourceIsRefused) {
  expect_refusal([&] { load({"-n", "1", "--predict", "1"}); }, {"-n and --predict", "given twice"});
  expect_refusal([&] { load({"--escape", "--no-escape"}); }, {"--escape and --no-escape"});
  expect_refusal([&] { load({}, {"DLLM_TEMP=1", "DLLM_TEMPERATURE=1"}); },
                 {"DLLM_TEMP and DLLM_TEMPERATURE", "environment"});
  const std::string twice = write("a.cfg", "temp = 1\ntemperature = 2\n");
  expect_refusal([&] { load({"--config", twice}); }, {"a.cfg:1", "a.cfg:2", "given twice"});
  EXPECT_EQ(load({"--plugin-dir", "a", "--plugin-dir", "b"}).list("plugin-dir"),
            (std::vector<std::string>{"a", "b"}));
}

TEST_F(Precedence, OfAlternativesTheHigherSourceWinsAndOneSourceMayNameOne) {
  const std::string config = write("a.cfg", "prompt = from the file\nsystem = s\n");
  const Settings settings = load({"--config", config, "-f", "x.txt"});
  EXPECT_FALSE(settings.has("prompt"));
  EXPECT_EQ(settings.text("file"), "x.txt");
  EXPECT_EQ(settings.text("system"), "s");
  expect_refusal([&] { load({"-p", "a", "-f", "b"}); }, {"-f and -p", "exclude each other"});
  expect_refusal([&] { load({"-sys", "a", "-sysf", "b"}); }, {"-sys and -sysf"});
}

TEST_F(Precedence, OptionsOfOtherCommandsMayStandInSharedFiles) {
  const std::string config = write("a.cfg", "rows = 1,2\nsteps = 4\n");
  EXPECT_EQ(load({"--config", config}).integer("predict"), 128);
  EXPECT_NO_THROW(load_settings(kTokenize, {"--config", config}, Environment({}).get()));
}

TEST_F(Precedence, HelpNeedsNoWorkingConfig) {
  write("dllm/config.cfg", "nonsense\n");
  EXPECT_TRUE(load({"--help"}).flag("help"));
  expect_refusal([&] { load({}); }, {"config.cfg:1"});
}

TEST(EnvironmentOptions, NamesTheVariableOfABadValue) {
  expect_refusal([] { read_environment(Environment({"DLLM_TOP_P=2"}).get()); },
                 {"DLLM_TOP_P", "'2'", "environment"});
}

TEST(EnvironmentOptions, EmptyMeansNotSetAndNoNegates) {
  const auto read =
      read_environment(Environment({"DLLM_TOP_P=", "DLLM_NO_CHAT=1", "OTHER=3"}).get());
  ASSERT_EQ(read.assignments.size(), 1u);
  EXPECT_EQ(read.assignments[0].key + "=" + read.assignments[0].value, "chat=false");
  EXPECT_TRUE(read.warnings.empty());
}

TEST(EnvironmentOptions, MisspeltVariablesAreWarnedAbout) {
  const auto read = read_environment(
      Environment({"DLLM_STPES=3", "DLLM_PLUGIN_PATH=/x", "DLLM_CPU_ISA=avx2"}).get());
  ASSERT_EQ(read.warnings.size(), 1u);
  EXPECT_NE(read.warnings[0].find("DLLM_STPES"), std::string::npos);
  EXPECT_NE(read.warnings[0].find("DLLM_STEPS"), std::string::npos);
}

TEST(UserFile, FollowsTheXdgRule) {
  EXPECT_FALSE(user_config_file(Environment({"XDG_CONFIG_HOME=relative"}).get()).has_value());
  const auto home = std::filesystem::path(testing::TempDir()) / "xdg_home";
  std::filesystem::create_directories(home / ".config/dllm");
  std::ofstream(home / ".config/dllm/config.cfg") << "\n";
  EXPECT_EQ(user_config_file(Environment({"HOME=" + home.string(), "XDG_CONFIG_HOME="}).get()),
            home / ".config/dllm/config.cfg");
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace dllm::cli
