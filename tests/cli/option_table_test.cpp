// The table of options and its spellings.
#include "arguments/option_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "arguments/help.hpp"

namespace dllm::cli {
namespace {

TEST(OptionTable, EverySpellingNamesOneOption) {
  std::map<std::string, std::string_view> owners;
  for (const OptionSpec& spec : option_table()) {
    std::vector<std::string> spellings{"--" + std::string(spec.name)};
    for (const auto word : split_words(spec.spellings)) spellings.emplace_back(word);
    for (const std::string& spelling : spellings) {
      EXPECT_TRUE(owners.emplace(spelling, spec.name).second)
          << spelling << " belongs to " << owners[spelling] << " and " << spec.name;
      const auto found = find_spelling(spelling);
      ASSERT_TRUE(found.has_value()) << spelling;
      EXPECT_EQ(found->spec->name, spec.name);
      EXPECT_FALSE(found->negated);
    }
  }
}

TEST(OptionTable, EveryDefaultIsAllowed) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.default_value.empty()) continue;
    EXPECT_NO_THROW(parse_option(spec.info(spec.name), spec.default_value, "table")) << spec.name;
  }
}

TEST(OptionTable, UnderscoreEqualsDashInLongNames) {
  EXPECT_EQ(find_spelling("--n_predict")->spec->name, "predict");
  EXPECT_EQ(find_spelling("--block_length")->spec->name, "block-length");
  EXPECT_EQ(find_spelling("--diffusion_alg-temp")->spec->name, "alg-temp");
}

TEST(OptionTable, NoNegatesFlagsAndNothingElse) {
  EXPECT_TRUE(find_spelling("--no-chat")->negated);
  EXPECT_EQ(find_spelling("--no_escape")->spec->name, "escape");
  EXPECT_FALSE(find_spelling("--no-prompt").has_value());
  EXPECT_FALSE(find_spelling("--no-help").has_value());
}

TEST(OptionTable, PrefixesAreNoNames) {
  EXPECT_FALSE(find_spelling("--step").has_value());
  EXPECT_FALSE(find_spelling("--promp").has_value());
  EXPECT_FALSE(find_spelling("-sy").has_value());
}

TEST(OptionTable, HasTheNamesLlamaCppUsersKnow) {
  const std::map<std::string, std::string> known{
      {"-m", "model"},
      {"--model", "model"},
      {"-p", "prompt"},
      {"--prompt", "prompt"},
      {"-f", "file"},
      {"--file", "file"},
      {"-n", "predict"},
      {"--predict", "predict"},
      {"--n-predict", "predict"},
      {"-t", "threads"},
      {"--threads", "threads"},
      {"-s", "seed"},
      {"--seed", "seed"},
      {"--temp", "temperature"},
      {"--top-k", "top-k"},
      {"--top-p", "top-p"},
      {"-sys", "system"},
      {"--system-prompt", "system"},
      {"-sysf", "system-file"},
      {"-e", "escape"},
      {"--no-escape", "escape"},
      {"-v", "verbose"},
      {"-h", "help"},
      {"--help", "help"},
      {"--version", "version"},
      {"--list-devices", "list-devices"},
      {"--diffusion-steps", "steps"},
      {"--diffusion-visual", "visual"},
      {"--diffusion-eps", "eps"},
      {"--diffusion-algorithm", "algorithm"},
      {"--diffusion-alg-temp", "alg-temp"},
      {"--diffusion-block-length", "block-length"},
      {"--diffusion-cfg-scale", "cfg-scale"},
      {"--diffusion-add-gumbel-noise", "diffusion-add-gumbel-noise"}};
  for (const auto& [spelling, name] : known) {
    const auto found = find_spelling(spelling);
    ASSERT_TRUE(found.has_value()) << spelling;
    EXPECT_EQ(found->spec->name, name) << spelling;
  }
}

TEST(OptionTable, SugarAndSectionShareOneKey) {
  EXPECT_EQ(find_option("block-length")->key(), "sampler.block_length");
  EXPECT_EQ(find_option("threads")->key(), "backend.threads");
  EXPECT_EQ(find_option("dump-step-stats")->key(), "dump-step-stats");
}

TEST(Help, FitsOneScreenOf100ColumnsAndNamesEveryOption) {
  for (const CommandInfo& info : command_table()) {
    const std::string help = command_help(info.command);
    std::size_t lines = 0;
    std::size_t begin = 0;
    while (begin < help.size()) {
      const std::size_t end = help.find('\n', begin);
      EXPECT_LE(end - begin, 100u) << info.name << ": " << help.substr(begin, end - begin);
      begin = end + 1;
      ++lines;
    }
    EXPECT_LE(lines, 60u) << info.name;
    for (const OptionSpec& spec : option_table()) {
      if ((spec.commands & info.command) == 0 || spec.name.starts_with("diffusion-")) continue;
      const bool named = help.find("--" + std::string(spec.name)) != std::string::npos ||
                         help.find("--[no-]" + std::string(spec.name)) != std::string::npos;
      EXPECT_TRUE(named) << info.name << " lacks " << spec.name;
    }
  }
}

}  // namespace
}  // namespace dllm::cli
