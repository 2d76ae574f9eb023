#include "plugin/plugin_descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "plugin/elf_note.hpp"

namespace dllm {
namespace {

// What a reader needs before it knows the version: magic, struct_size and the two numbers.
constexpr std::size_t kVersionedBytes = offsetof(dllm_plugin_descriptor, kind);
// Size at ABI 1.0; later minors only append.
constexpr std::size_t kFirstDescriptorBytes =
    offsetof(dllm_plugin_descriptor, summary) + sizeof(dllm_plugin_descriptor::summary);

template <std::size_t N>
bool is_terminated(const char (&field)[N]) {
  return std::memchr(field, 0, N) != nullptr;
}

bool is_id(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Refusal judge_sizes(const RawDescriptor& raw) {
  const dllm_plugin_descriptor& d = raw.descriptor;
  const char* const fix = "declare the plugin with the macros of DllmPluginSdk and rebuild";
  if (raw.bytes < kVersionedBytes) {
    return {fmt::format("its plugin descriptor has {} bytes, the smallest has {}", raw.bytes,
                        kFirstDescriptorBytes),
            fix};
  }
  if (std::memcmp(d.magic, DLLM_PLUGIN_MAGIC, sizeof d.magic) != 0) {
    return {fmt::format("its plugin descriptor starts with '{}', not with '{}'",
                        descriptor_text(d.magic), DLLM_PLUGIN_MAGIC),
            fix};
  }
  if (d.struct_size > raw.bytes || d.struct_size < kVersionedBytes) {
    return {fmt::format("its plugin descriptor claims {} bytes, the note holds {}", d.struct_size,
                        raw.bytes),
            fix};
  }
  return {};
}

Refusal judge_version(const dllm_plugin_descriptor& d) {
  if (d.abi_major == DLLM_PLUGIN_ABI_MAJOR && d.abi_minor <= DLLM_PLUGIN_ABI_MINOR) return {};
  const bool newer_minor = d.abi_major == DLLM_PLUGIN_ABI_MAJOR;
  return {fmt::format("built for plugin ABI {}.{}, this runtime speaks {}.{}", d.abi_major,
                      d.abi_minor, DLLM_PLUGIN_ABI_MAJOR, DLLM_PLUGIN_ABI_MINOR),
          newer_minor ? fmt::format("update dllm, or rebuild against DllmPluginSdk {}.{}",
                                    DLLM_PLUGIN_ABI_MAJOR, DLLM_PLUGIN_ABI_MINOR)
                      : fmt::format("rebuild against DllmPluginSdk {}.x", DLLM_PLUGIN_ABI_MAJOR)};
}

}  // namespace

std::string Refusal::sentence() const { return fact + ". Fix: " + fix + "."; }

PluginKind plugin_kind_of(const dllm_plugin_descriptor& descriptor) {
  switch (descriptor.kind) {
    case DLLM_PLUGIN_KIND_SAMPLER:
      return PluginKind::sampler;
    case DLLM_PLUGIN_KIND_BACKEND:
      return PluginKind::backend;
    case DLLM_PLUGIN_KIND_MODEL:
      return PluginKind::model;
    default:
      return PluginKind::unknown;
  }
}

std::variant<RawDescriptor, Refusal> read_descriptor(const std::filesystem::path& path) {
  PluginFile file;
  if (Refusal refusal = file.open(path); !refusal.fact.empty()) return refusal;
  ElfNotes notes = read_elf_notes(file, DLLM_PLUGIN_NOTE_OWNER, DLLM_PLUGIN_NOTE_TYPE);
  if (!notes.refusal.fact.empty()) return std::move(notes.refusal);
  if (notes.payloads.empty()) {
    return Refusal{
        fmt::format("no dllm plugin: it has no descriptor (ELF note {})", DLLM_PLUGIN_NOTE_SECTION),
        "declare the plugin with the macros of DllmPluginSdk and rebuild, or move the "
        "file out of the plugin folder"};
  }
  if (notes.payloads.size() > 1) {
    return Refusal{
        fmt::format("it has {} plugin descriptors, one is allowed", notes.payloads.size()),
        "build one shared object per plugin"};
  }
  RawDescriptor raw;
  const std::vector<std::byte>& payload = notes.payloads.front();
  raw.bytes = payload.size();
  // An empty payload has no data() to copy from.
  if (raw.bytes > 0) {
    std::memcpy(&raw.descriptor, payload.data(), std::min(raw.bytes, sizeof raw.descriptor));
  }
  return raw;
}

Refusal judge_descriptor(const RawDescriptor& raw) {
  const dllm_plugin_descriptor& d = raw.descriptor;
  if (Refusal refusal = judge_sizes(raw); !refusal.fact.empty()) return refusal;
  if (Refusal refusal = judge_version(d); !refusal.fact.empty()) return refusal;
  if (d.struct_size < kFirstDescriptorBytes) {
    return {fmt::format("its plugin descriptor has {} bytes, ABI {}.{} needs {}", d.struct_size,
                        d.abi_major, d.abi_minor, kFirstDescriptorBytes),
            "declare the plugin with the macros of DllmPluginSdk and rebuild"};
  }
  const PluginKind kind = plugin_kind_of(d);
  if (kind == PluginKind::unknown) {
    return {fmt::format("plugin kind {} is unknown, this runtime knows 1 (sampler), 2 (backend) "
                        "and 3 (model)",
                        d.kind),
            "update dllm, or correct the kind in the plugin's descriptor"};
  }
  if (!is_terminated(d.id) || !is_id(d.id)) {
    return {fmt::format("its id '{}' is not allowed, an id has 1 to {} of the characters a-z, 0-9 "
                        "and _",
                        descriptor_text(d.id), sizeof d.id - 1),
            "correct the id in the plugin's descriptor and rebuild"};
  }
  if (kind != PluginKind::sampler &&
      (!is_terminated(d.tag) || std::string_view(d.tag) != build_tag())) {
    return {fmt::format("built with tag '{}', this runtime has '{}'", descriptor_text(d.tag),
                        build_tag()),
            "rebuild it with the headers and the compiler of this dllm"};
  }
  return {};
}

}  // namespace dllm
