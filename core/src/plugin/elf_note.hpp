// A small reader of notes in 64-bit little-endian ELF files. It trusts nothing in the file: every
// offset and size is checked against the file's size before it is used.
//
// ELF-64 object file format, version 1.5: file header, program headers, note section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plugin/plugin_descriptor.hpp"

namespace dllm {

/// A regular file opened for reading at offsets. Never blocks on pipes or devices.
class PluginFile {
 public:
  PluginFile() = default;
  PluginFile(const PluginFile&) = delete;
  PluginFile& operator=(const PluginFile&) = delete;
  ~PluginFile();

  /// Empty fact: it is open.
  Refusal open(const std::filesystem::path& path);
  std::uint64_t size() const noexcept { return size_; }
  /// Reads `count` bytes at `offset`; false where the file does not hold them all.
  bool read(std::uint64_t offset, void* out, std::size_t count) const;

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// The payloads of every note of `owner` and `type` in PT_NOTE segments, which stripping keeps.
struct ElfNotes {
  Refusal refusal;  ///< not empty: the file is no shared object for this machine, or is damaged
  std::vector<std::vector<std::byte>> payloads;
};
ElfNotes read_elf_notes(const PluginFile& file, std::string_view owner, std::uint32_t type);

}  // namespace dllm
