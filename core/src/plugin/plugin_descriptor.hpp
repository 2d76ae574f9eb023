// The descriptor of a plugin file: read from its ELF note, then judged, all without running its
// code.
#pragma once

#include <filesystem>
#include <string>
#include <variant>

#include "dllm/plugin.hpp"
#include "dllm_sdk/plugin_abi.h"
#include "plugin/foreign_text.hpp"

namespace dllm {

/// Why a file is no plugin for this runtime: the fact with both values, then the next thing to do.
struct Refusal {
  std::string fact;
  std::string fix;

  /// "fact. Fix: fix."
  std::string sentence() const;
};

/// The descriptor as it lies in the file: `bytes` of it were there, the rest is zero.
struct RawDescriptor {
  dllm_plugin_descriptor descriptor{};
  std::size_t bytes = 0;  ///< size the note gives; may be larger than ours
};

/// Finds the note in `file`. Refuses what is unreadable, no ELF for this machine, or has no note.
std::variant<RawDescriptor, Refusal> read_descriptor(const std::filesystem::path& file);

/// Magic, sizes, ABI version, kind, id, and for the C++ tier the tag. Empty fact: it fits.
Refusal judge_descriptor(const RawDescriptor& raw);

PluginKind plugin_kind_of(const dllm_plugin_descriptor& descriptor);

/// A char array of the descriptor as text to show: up to the first zero or the end.
template <std::size_t N>
std::string descriptor_text(const char (&field)[N]) {
  const std::string_view all(field, N);
  return printable(all.substr(0, all.find('\0')));
}

}  // namespace dllm
