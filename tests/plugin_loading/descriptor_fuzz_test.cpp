// Damaged plugin files: cut at every length and with flipped bits (fixed seeds). Whatever they
// hold, inspecting them ends, stays inside the file (the sanitizer presets see to that), and gives
// either a descriptor that fits or a reason. Nothing here loads a file.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "memory_file.hpp"
#include "plugin_folder.hpp"

namespace dllm::test {
namespace {

// Offset of the first program header of type PT_NOTE that holds the descriptor's magic.
std::size_t note_offset(const std::string& file) { return file.find(DLLM_PLUGIN_MAGIC) - 20; }

// Where the last loadable segment ends; what follows (section headers) is not needed to load.
std::size_t loaded_end(const std::string& file) {
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  std::size_t end = 0;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, file.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

class DamagedPlugin : public testing::Test {
 protected:
  PluginRecord inspect(std::string_view bytes) {
    file_.set(bytes);
    PluginRecord record = inspect_plugin(file_.path());
    EXPECT_FALSE(record.accepted);
    if (record.reason.empty()) {
      EXPECT_NE(record.kind, PluginKind::unknown);
      EXPECT_FALSE(record.id.empty());
      EXPECT_EQ(record.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
                std::string::npos);
    }
    return record;
  }

  const std::string whole_ = read_file(kTestPlugins / "whole.so");
  const MemoryFile file_;
};

TEST_F(DamagedPlugin, WholeFits) { EXPECT_EQ(inspect(whole_).reason, ""); }

// The loader would map pages that are not there: an interrupted copy ended every command by SIGBUS.
TEST_F(DamagedPlugin, CutAnywhereBeforeTheLastLoadedByteIsRefused) {
  const std::size_t note_end = note_offset(whole_) + sizeof(dllm_plugin_note);
  const std::size_t end = loaded_end(whole_);
  ASSERT_GT(end, note_end);
  for (std::size_t length = 0; length < end; length += length < note_end ? 1 : 97) {
    ASSERT_NE(inspect(std::string_view(whole_).substr(0, length)).reason, "") << length;
  }
  EXPECT_THAT(inspect(std::string_view(whole_).substr(0, end - 1)).reason,
              testing::HasSubstr("a damaged ELF file: a segment of"));
  EXPECT_EQ(inspect(std::string_view(whole_).substr(0, end)).reason, "");
}

TEST_F(DamagedPlugin, FlippedBitsInHeadersAndNoteNeverCrash) {
  const std::size_t end = note_offset(whole_) + sizeof(dllm_plugin_note);
  std::mt19937 random(20240229);
  std::size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole_;
    const int flips = 1 + round % 4;
    for (int i = 0; i < flips; ++i) {
      damaged[random() % end] ^= static_cast<char>(1u << random() % 8);
    }
    refused += inspect(damaged).reason.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 300u);
}

TEST_F(DamagedPlugin, LyingSizesAndOffsetsNeverCrash) {
  const std::uint64_t values[] = {0,
                                  1,
                                  7,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  ~0ull,
                                  1ull << 63,
                                  (1ull << 63) - 1,
                                  ~0ull - 63,
                                  whole_.size(),
                                  whole_.size() - 1};
  const std::size_t note = note_offset(whole_);
  std::vector<std::size_t> fields = {offsetof(Elf64_Ehdr, e_phoff),
                                     offsetof(Elf64_Ehdr, e_phnum),
                                     offsetof(Elf64_Ehdr, e_phentsize),
                                     note,
                                     note + 4,
                                     note + 8};
  for (std::size_t header = sizeof(Elf64_Ehdr); header < note; header += sizeof(Elf64_Phdr)) {
    for (std::size_t field : {offsetof(Elf64_Phdr, p_type), offsetof(Elf64_Phdr, p_offset),
                              offsetof(Elf64_Phdr, p_filesz), offsetof(Elf64_Phdr, p_align)}) {
      fields.push_back(header + field);
    }
  }
  std::size_t refused = 0;
  for (const std::size_t field : fields) {
    for (const std::uint64_t value : values) {
      for (const std::size_t width : {2u, 4u, 8u}) {
        std::string damaged = whole_;
        std::memcpy(damaged.data() + field, &value, std::min(width, damaged.size() - field));
        refused += inspect(damaged).reason.empty() ? 0 : 1;
      }
    }
  }
  // Or the lies reach nothing that is read.
  EXPECT_GT(refused, fields.size());
}

TEST_F(DamagedPlugin, TextThatFillsItsArrayIsNotReadPastIt) {
  const std::size_t at = note_offset(whole_) + 20;
  std::string damaged = whole_;
  std::memset(damaged.data() + at + offsetof(dllm_plugin_descriptor, id), 'a',
              sizeof(dllm_plugin_descriptor::id));
  EXPECT_NE(inspect(damaged).reason.find("its id '" + std::string(32, 'a') + "'"),
            std::string::npos);
  damaged = whole_;
  std::memset(damaged.data() + at + offsetof(dllm_plugin_descriptor, version), 0x1b, 32);
  std::memset(damaged.data() + at + offsetof(dllm_plugin_descriptor, summary), 0xff, 128);
  const PluginRecord record = inspect(damaged);
  EXPECT_EQ(record.reason, "");
  EXPECT_EQ(record.version, std::string(32, '?'));
  EXPECT_EQ(record.summary, std::string(128, '?'));
}

}  // namespace
}  // namespace dllm::test
