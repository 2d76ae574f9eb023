// One broken file per reason to refuse a plugin: the reason is right, says both values and the
// remedy, is logged as a warning, and a good plugin beside it still loads. What the descriptor or
// the file's form already tells is refused before any code of the file runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <ostream>

#include "plugin_folder.hpp"
#include "without_root.hpp"

namespace dllm::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Refused {
  std::string name;  // of the case; also the file's stem
  std::vector<std::string> says;
  bool code_ran = false;  // as seen through the constructor in test_sampler.c
  std::function<void(const fs::path&)> make = {};  // empty: the test plugin of that name
};

std::ostream& operator<<(std::ostream& out, const Refused& refused) { return out << refused.name; }

std::function<void(const fs::path&)> bytes(const std::string& text) {
  return [text](const fs::path& to) { write_file(to, text); };
}

// The whole plugin with one byte of its ELF header changed.
std::function<void(const fs::path&)> patched(std::size_t at, char value) {
  return [=](const fs::path& to) {
    std::string file = read_file(kTestPlugins / "whole.so");
    file.at(at) = value;
    write_file(to, file);
  };
}

class Refusal : public testing::TestWithParam<Refused> {};

TEST_P(Refusal, NamesReasonAndRemedyAndStopsNoOther) {
  const Refused& refused = GetParam();
  PluginFolder folder;
  const fs::path file = folder.path() / (refused.name + ".so");
  if (refused.make) {
    refused.make(file);
  } else {
    folder.add(refused.name);
  }
  folder.add("two_architectures", "zz_good.so");
  ::unsetenv("DLLM_TEST_CODE_RAN");

  const auto records = folder.scan().records();

  ASSERT_EQ(records.size(), 2u);
  EXPECT_FALSE(records[0].accepted);
  EXPECT_EQ(records[0].path, file);
  for (const std::string& part : refused.says) EXPECT_THAT(records[0].reason, HasSubstr(part));
  EXPECT_THAT(records[0].reason, testing::ContainsRegex("[^.]\\. Fix: .+[^.]\\.$"));
  EXPECT_THAT(records[0].reason, testing::Not(HasSubstr("\n")));
  EXPECT_EQ(std::getenv("DLLM_TEST_CODE_RAN") != nullptr, refused.code_ran);

  ASSERT_FALSE(folder.log().empty());
  EXPECT_EQ(folder.log()[0].level, LogLevel::warning);
  EXPECT_EQ(folder.log()[0].component, "plugins");
  EXPECT_EQ(folder.log()[0].message, "refused " + file.string() + ": " + records[0].reason);
  EXPECT_TRUE(records[1].accepted) << records[1].reason;
}

INSTANTIATE_TEST_SUITE_P(
    Files, Refusal,
    testing::Values(
        Refused{"dangling_link",
                {"a link to '/no/such/file', which does not exist"},
                false,
                [](const fs::path& to) { fs::create_symlink("/no/such/file", to); }},
        Refused{"link_loop",
                {"cannot be examined", "symbolic links"},
                false,
                [](const fs::path& to) { fs::create_symlink(to, to); }},
        Refused{"directory",
                {"a folder, not a file"},
                false,
                [](const fs::path& to) { fs::create_directory(to); }},
        Refused{"pipe",
                {"not a regular file"},
                false,
                [](const fs::path& to) { ASSERT_EQ(::mkfifo(to.c_str(), 0600), 0); }},
        Refused{"empty", {"an empty file"}, false, bytes("")},
        Refused{"one_byte", {"not an ELF file (it starts with '?')"}, false, bytes("\x7f")},
        Refused{"text",
                {"not an ELF file (it starts with 'INPU')"},
                false,
                bytes("INPUT(libwhole.so)\n")},
        Refused{"magic_only",
                {"a damaged ELF file: it ends after 4 bytes"},
                false,
                bytes("\x7f"
                      "ELF")},
        Refused{"half_header",
                {"a damaged ELF file: its header needs 64 bytes, the file has 40"},
                false,
                [](const fs::path& to) {
                  write_file(to, read_file(kTestPlugins / "whole.so").substr(0, 40));
                }},
        Refused{"no_program_headers",
                {"a damaged ELF file", "program headers at byte 64"},
                false,
                [](const fs::path& to) {
                  write_file(to, read_file(kTestPlugins / "whole.so").substr(0, 100));
                }},
        Refused{"header_count",
                {"a damaged ELF file: ", "program headers"},
                false,
                patched(57, '\x40')},
        Refused{"header_size",
                {"a damaged ELF file: ", "of 57 bytes, they have 56"},
                false,
                patched(54, 57)},
        Refused{"class_32",
                {"a 32-bit little-endian ELF file", "64-bit little-endian"},
                false,
                patched(4, 1)},
        Refused{"big_endian",
                {"a 64-bit big-endian ELF file", "64-bit little-endian"},
                false,
                patched(5, 2)},
        Refused{"riscv", {"built for riscv, this runtime is "}, false, patched(18, '\xf3')},
        Refused{
            "object_file", {"an ELF file of type 1, not a shared object"}, false, patched(16, 1)}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Descriptors, Refusal,
    testing::Values(
        Refused{"no_descriptor", {"no dllm plugin: it has no descriptor", "DllmPluginSdk"}},
        Refused{"two_descriptors", {"it has 2 plugin descriptors, one is allowed"}},
        Refused{"short_note", {"its plugin descriptor has 12 bytes, the smallest has 408"}},
        Refused{"bad_magic", {"starts with 'NOTDLLM', not with 'DLLMPLG'"}},
        Refused{"size_past_note", {"claims 4096 bytes, the note holds 408"}},
        Refused{"size_too_small", {"has 64 bytes, ABI 1.0 needs 408"}},
        Refused{"major_2",
                {"built for plugin ABI 2.0, this runtime speaks 1.0. Fix: rebuild against "
                 "DllmPluginSdk 1.x."}},
        Refused{"major_0", {"built for plugin ABI 0.0, this runtime speaks 1.0"}},
        Refused{"minor_9", {"built for plugin ABI 1.9, this runtime speaks 1.0. Fix: update dllm"}},
        Refused{"kind_7", {"plugin kind 7 is unknown"}},
        Refused{"bad_id", {"its id 'Left-To-Right' is not allowed"}},
        Refused{"empty_id", {"its id '' is not allowed"}},
        Refused{"other_tag",
                {"built with tag 'dllm-0.0.9/r0/elsewhere', this runtime has '",
                 std::string(build_tag())}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Loading, Refusal,
    testing::Values(
        // The loader finds the missing symbol before it runs constructors.
        Refused{"missing_symbol",
                {"the system's loader refused it", "dllm_test_function_that_nobody_defines"}},
        Refused{"no_entry", {"it does not export dllm_plugin_entry"}, true},
        Refused{"start_fails", {"its start failed: the moon is wrong"}, true},
        Refused{"start_fails_silently", {"its start failed: it gave no reason"}, true},
        Refused{"start_fills_buffer", {"its start failed: xxxx"}, true},
        Refused{"start_throws", {"its entry let an exception escape: no luck today"}},
        Refused{"small_table", {"its sampler table has 32 bytes, ABI 1.0 needs 72"}, true},
        Refused{"no_plan_function", {"its sampler table lacks the function plan"}, true},
        Refused{"option_size", {"option 0 has struct_size 8, this runtime expects 64"}, true},
        Refused{"option_type", {"option at_once has type 99, the last known is 4"}, true},
        Refused{"option_name", {"option 0 is named 'At-Once'"}, true},
        Refused{"option_unnamed", {"option 0 is named ''"}, true},
        Refused{"option_twice", {"option at_once is described twice"}, true},
        Refused{"option_no_default", {"option at_once has no default"}, true},
        Refused{"option_bad_default", {"refused by its own range", "'65' is not allowed"}, true},
        Refused{"option_empty_range", {"option at_once has minimum 65 and maximum 64"}, true},
        Refused{"option_no_choices", {"option at_once is a choice without choices"}, true},
        Refused{"option_escapes", {"the default of option at_once holds control characters"}, true},
        Refused{"option_long", {"the default of option at_once is longer than 4096 bytes"}, true},
        Refused{"raw_logits_size",
                {"its table for raw logits is malformed: it has 8 bytes, 16 are needed"},
                true},
        Refused{"raw_logits_empty", {"raw logits is malformed: it lacks the function take"}, true},
        Refused{"table_nowhere", {"its sampler table: it lies at 0x8, where no memory is"}, true},
        Refused{"options_nowhere", {"options are malformed: their list: it lies at 0x8"}, true},
        Refused{"raw_logits_nowhere",
                {"raw logits is malformed: it lies at 0x8, where no memory"},
                true},
        Refused{"raw_logits_odd", {"it lies at 0x1003, which is no multiple of 8"}, true},
        Refused{"presets_nowhere",
                {"malformed: their table: it lies at 0x8, where no memory is"},
                true},
        Refused{"preset_list_nowhere", {"malformed: a list of theirs: it lies at 0x8"}, true},
        Refused{
            "preset_values_nowhere", {"malformed: the list of preset four: it lies at 0x8"}, true},
        Refused{"option_name_nowhere", {"the name of option 0: it lies at 0x8, where no"}, true},
        Refused{"option_default_nowhere", {"the default of option at_once: it lies at 0x8"}, true},
        Refused{"option_help_nowhere", {"the help of option at_once: it lies at 0x8"}, true},
        Refused{"option_choices_nowhere",
                {"the list of choices of option at_once: it lies at 0x8"},
                true},
        Refused{"preset_name_nowhere", {"a text of a preset: it lies at 0x8"}, true},
        Refused{"preset_value_nowhere", {"a text of preset four: it lies at 0x8"}, true},
        Refused{"alias_option_nowhere", {"a text of an alias: it lies at 0x8"}, true},
        Refused{"preset_name", {"presets are malformed: a preset is named 'Four At Once'"}, true},
        Refused{"preset_option",
                {"presets are malformed: preset four names option 'pace', which is not its own"},
                true},
        Refused{"preset_value", {"preset four: ", "'65' is not allowed"}, true},
        Refused{"presets_size", {"their table has 8 bytes, 32 are needed"}, true},
        Refused{"alias_option", {"the alias of speed = fast names option 'pace'"}, true},
        Refused{"backend_bad_default", {"options are malformed", "'65' is not allowed"}},
        Refused{"no_architecture", {"it names no architecture"}}),
    [](const auto& info) { return info.param.name; });

TEST(Refusal, NamesAFileThatMayNotBeRead) {
  PluginFolder folder;
  fs::permissions(folder.add("whole"), fs::perms::none);
  fs::permissions(folder.path(), fs::perms(0755));
  const test::WithoutRoot nobody;
  if (!nobody.done()) GTEST_SKIP() << "cannot stop being root";
  const auto records = folder.scan().records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_THAT(records[0].reason, HasSubstr("cannot be read: Permission denied"));
}

TEST(Refusal, OfASecondFileWithTheSameIdNamesBothAndRunsNoneOfItsCode) {
  PluginFolder folder;
  const fs::path first = folder.add("whole", "a.so");
  const fs::path second = folder.add("same_id", "b.so");
  folder.scan();
  ::unsetenv("DLLM_TEST_CODE_RAN");
  const auto records =
      folder.scan().records();  // a.so is loaded already, its constructor ran before
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(records[0].accepted);
  EXPECT_FALSE(records[1].accepted);
  EXPECT_THAT(records[1].reason,
              HasSubstr("its sampler id 'left_to_right' is taken by " + first.string()));
  EXPECT_THAT(folder.log().back().message, HasSubstr("refused " + second.string()));
  EXPECT_EQ(std::getenv("DLLM_TEST_CODE_RAN"), nullptr);
}

}  // namespace
}  // namespace dllm::test
