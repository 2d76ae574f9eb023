// What the registry does with files that are well: order, links, stripping, lifetime, the host
// table.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "dllm/sampler.hpp"
#include "plugin_folder.hpp"

namespace dllm::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(PluginRegistry, TellsWhatTheDescriptorAndTheTableSay) {
  PluginFolder folder;
  const fs::path file = folder.add("whole");
  const PluginRecord* record = folder.scan().find(PluginKind::sampler, "left_to_right");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->path, file);
  EXPECT_EQ(record->version, "1.2.3");
  EXPECT_EQ(record->summary, "commits from left to right");
  EXPECT_EQ(record->reason, "");
  ASSERT_EQ(record->options.size(), 1u);
  const OptionInfo& option = record->options[0];
  EXPECT_EQ(option.name, "at_once");
  EXPECT_EQ(option.type, OptionType::integer);
  EXPECT_EQ(option.default_value, "1");
  EXPECT_EQ(option.help, "positions a step");
  EXPECT_EQ(option.minimum, 1);
  EXPECT_EQ(option.maximum, 64);
  EXPECT_FALSE(option.minimum_exclusive);
}

TEST(PluginRegistry, LoadsAStrippedPlugin) {
  PluginFolder folder;
  const fs::path file = folder.add("whole", "stripped.so");
  const auto before = fs::file_size(file);
  const std::string command = std::string(DLLM_STRIP) + " -s '" + file.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_LT(fs::file_size(file), before);
  EXPECT_NE(folder.scan().find(PluginKind::sampler, "left_to_right"), nullptr);
}

TEST(PluginRegistry, FindsOnlyTheKindAskedFor) {
  PluginFolder folder;
  folder.add("slow");
  const PluginRegistry& registry = folder.scan();
  EXPECT_NE(registry.find(PluginKind::backend, "slow"), nullptr);
  EXPECT_EQ(registry.find(PluginKind::sampler, "slow"), nullptr);
  EXPECT_EQ(registry.find(PluginKind::backend, "slo"), nullptr);
}

TEST(PluginRegistry, JudgesInNameOrderAndLeavesOtherFilesAlone) {
  PluginFolder folder;
  folder.add("slow", "c.so");
  folder.add("fast", "a.so");
  folder.add("absent", "b.so");
  write_file(folder.path() / "notes.txt", "no plugin");
  write_file(folder.path() / "libold.so.1", "no plugin");
  EXPECT_THAT(folder.scan().ids(PluginKind::backend),
              testing::ElementsAre("fast", "absent", "slow"));
  EXPECT_EQ(folder.scan().records().size(), 3u);
}

TEST(PluginRegistry, PassesOverAFileMetAgainThroughALinkOrAFolderGivenTwice) {
  PluginFolder folder;
  const fs::path file = folder.add("whole", "a.so");
  fs::create_symlink(file, folder.path() / "b.so");
  PluginRegistry& registry = folder.scan();
  const std::vector<fs::path> again = {folder.path()};
  registry.scan(again);
  EXPECT_EQ(registry.records().size(), 1u);
  EXPECT_THAT(folder.log(), testing::Each(testing::Field(&LogLine::level, LogLevel::debug)));
}

TEST(PluginRegistry, FirstFolderWins) {
  PluginFolder first;
  PluginFolder second;
  const fs::path winner = first.add("whole", "z.so");
  const fs::path loser = second.add("whole", "a.so");
  std::vector<LogLevel> levels;
  const Log log(
      [&](LogLevel level, std::string_view, std::string_view) { levels.push_back(level); });
  PluginRegistry registry(log);
  const std::vector<fs::path> folders = {first.path(), second.path()};
  registry.scan(folders);
  ASSERT_EQ(registry.records().size(), 2u);
  EXPECT_EQ(registry.find(PluginKind::sampler, "left_to_right")->path, winner);
  EXPECT_EQ(registry.records()[1].path, loser);
  EXPECT_THAT(registry.records()[1].reason, HasSubstr("is taken by " + winner.string()));
  EXPECT_THAT(levels, testing::Each(LogLevel::debug)) << "the same version found again is no fault";
}

TEST(PluginRegistry, WarnsOfTwoFilesWithOneIdInOneFolder) {
  PluginFolder folder;
  folder.add("whole", "a.so");
  folder.add("whole", "b.so");
  folder.scan();
  ASSERT_EQ(folder.log().size(), 2u);
  EXPECT_EQ(folder.log()[1].level, LogLevel::warning);
}

TEST(PluginRegistry, ARefusedFileDoesNotTakeTheId) {
  PluginFolder folder;
  folder.add("start_fails", "a.so");  // same id as whole
  folder.add("whole", "b.so");
  EXPECT_EQ(folder.scan().find(PluginKind::sampler, "left_to_right")->path, folder.path() / "b.so");
}

TEST(PluginRegistry, WarnsOfAFolderItCannotRead) {
  PluginFolder folder;
  const std::vector<fs::path> missing = {folder.path() / "missing"};
  folder.scan().scan(missing);
  ASSERT_EQ(folder.log().size(), 1u);
  EXPECT_EQ(folder.log()[0].level, LogLevel::warning);
  EXPECT_THAT(folder.log()[0].message, HasSubstr((folder.path() / "missing").string()));
}

Sampler make_sampler(const PluginRecord& record) {
  dllm_model_facts facts{};
  return Sampler(record.library, record.id, record.sampler, record.options,
                 check_options(record.options, {{"at-once", "2"}}, "sampler left_to_right"), facts);
}

TEST(PluginRegistry, KeepsPluginsLoadedAndLogsOfThemHarmlessAfterItsEnd) {
  PluginFolder folder;
  folder.add("whole");
  const PluginRecord record = *folder.scan().find(PluginKind::sampler, "left_to_right");
  folder.end_registry();
  const std::size_t lines = folder.log().size();
  {
    const Sampler sampler = make_sampler(record);
  }  // logs through the table of the ended registry
  EXPECT_EQ(folder.log().size(), lines);
}

TEST(PluginRegistry, UnloadsNothingWhenTheLastRecordGoes) {
  PluginFolder folder;
  const fs::path file = folder.add("whole");
  const fs::path refused = folder.add("small_table");
  folder.scan();
  folder.end_registry();
  for (const fs::path& path : {file, refused}) {
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(handle, nullptr) << path << " was unloaded";
    if (handle != nullptr) ::dlclose(handle);
  }
}

TEST(PluginRegistry, LogLinesOfAPluginAreMadeSafeToShow) {
  PluginFolder folder;
  folder.add("whole");
  const PluginRecord& record = folder.scan().require(PluginKind::sampler, "left_to_right");
  {
    const Sampler sampler = make_sampler(record);
  }
  const LogLine& line = folder.log().back();
  EXPECT_EQ(line.level, LogLevel::info);
  EXPECT_EQ(line.component, "left_to_right");
  EXPECT_EQ(line.message, "made ?[31m?");
}

TEST(PluginRegistry, TwoRegistriesLoadTheSameFile) {
  PluginFolder folder;
  folder.add("whole");
  const Log log;
  PluginRegistry one(log);
  PluginRegistry two(log);
  const std::vector<fs::path> folders = {folder.path()};
  one.scan(folders);
  two.scan(folders);
  EXPECT_NE(one.find(PluginKind::sampler, "left_to_right"), nullptr);
  EXPECT_NE(two.find(PluginKind::sampler, "left_to_right"), nullptr);
}

TEST(PluginRegistry, ReadsTheSamplersOwnPresetsAndAliases) {
  PluginFolder folder;
  folder.add("with_presets");
  const auto records = folder.scan().records();
  ASSERT_EQ(records.size(), 1u);
  ASSERT_TRUE(records[0].accepted) << records[0].reason;
  ASSERT_EQ(records[0].presets.size(), 1u);
  EXPECT_EQ(records[0].presets[0].name, "four");
  EXPECT_EQ(records[0].presets[0].help, "four at once");
  EXPECT_EQ(records[0].presets[0].values.at("at_once"), "4");
  ASSERT_EQ(records[0].aliases.size(), 1u);
  EXPECT_EQ(records[0].aliases[0].value, "fast");
  EXPECT_EQ(records[0].aliases[0].means_value, "8");
}

TEST(PluginRegistry, TakesASingleFileWhereverItLies) {
  Log log;
  PluginRegistry registry(log);
  registry.scan_file(kTestPlugins / "whole.so");
  registry.scan_file("/no/such/file.so");
  ASSERT_EQ(registry.records().size(), 2u);
  EXPECT_TRUE(registry.records()[0].accepted);
  EXPECT_FALSE(registry.records()[1].accepted);
}

}  // namespace
}  // namespace dllm::test
