// Finding, judging and loading plugins.
//
//   PluginRegistry registry(log);
//   registry.scan(default_plugin_folders({}));
//   const PluginRecord* sampler = registry.find(PluginKind::sampler, "llada");
//
// Each file's descriptor (an ELF note) is read and judged before the file is loaded, so foreign
// code of a plugin that does not fit never runs. A refused file is kept with its reason and logged
// as a warning; it never stops the others. Plugins stay loaded until the process ends. Thread rule:
// scan from one thread; const calls after that from any.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/backend.hpp"
#include "dllm/log.hpp"
#include "dllm/model.hpp"
#include "dllm/options.hpp"
#include "dllm/sampler.hpp"

namespace dllm {

enum class PluginKind { sampler, backend, model, unknown };

/// "sampler", "backend", "model", "unknown".
std::string_view plugin_kind_name(PluginKind kind);

struct PluginRecord {
  PluginKind kind = PluginKind::unknown;
  std::string id;
  std::string version;
  std::string summary;
  std::filesystem::path path;
  bool accepted = false;
  std::string reason;                 ///< where refused: one sentence, with the remedy
  std::vector<OptionInfo> options;    ///< samplers and backends
  std::vector<OptionPreset> presets;  ///< samplers
  std::vector<OptionAlias> aliases;   ///< samplers

  // Where accepted, the one of its kind; they live until the process ends.
  const dllm_sampler_v1* sampler = nullptr;
  const BackendFactory* backend = nullptr;
  const ModelFactory* model = nullptr;
  std::shared_ptr<void> library;
};

/// The exact tag backends and models must carry: interface revision, C++ library and its ABI flags,
/// architecture, sanitizer.
std::string_view build_tag();

/// Search order: `extra` (--plugin-dir), DLLM_PLUGIN_PATH (colon-separated), lib/dllm/plugins
/// beside libdllm.so, ~/.local/lib/dllm/plugins. Never the current directory. Folders that do not
/// exist are left out, except those of `extra`, for which a missing one is Error (bad_usage).
std::vector<std::filesystem::path> default_plugin_folders(
    std::span<const std::filesystem::path> extra);

/// ~/.local/lib/dllm/plugins, whether it exists or not; empty without a HOME.
std::filesystem::path user_plugin_folder();

/// Judges a file by its descriptor, without loading it: none of its code runs. `reason` is empty
/// where the descriptor fits; whether the file also loads only a registry finds out.
PluginRecord inspect_plugin(const std::filesystem::path& path);

/// Asks an accepted backend about this machine. A probe that throws gives "not usable" and its
/// reason.
BackendFactory::Probe probe_backend(const PluginRecord& record);

class PluginRegistry {
 public:
  /// `log` must outlive the registry.
  explicit PluginRegistry(const Log& log);
  explicit PluginRegistry(Log&&) = delete;  // a temporary would not
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;
  ~PluginRegistry();

  /// Judges every *.so of each folder, in name order; the first of two equal ids wins. A file met
  /// again through a link is passed over. Invalidates records() and what find() returned.
  void scan(std::span<const std::filesystem::path> folders);

  /// Judges one file, wherever it lies; the record is the last of records(). A file met before is
  /// passed over.
  void scan_file(const std::filesystem::path& file);

  std::span<const PluginRecord> records() const noexcept;  ///< accepted and refused, scan order
  std::span<const std::filesystem::path> folders() const noexcept;  ///< scanned so far
  const PluginRecord* find(PluginKind kind, std::string_view id) const noexcept;
  std::vector<std::string> ids(PluginKind kind) const;  ///< accepted ones

  /// Like find, but throws Error (bad_usage) with the ids there are, the nearest match, and, when a
  /// file of that id was refused, its reason.
  const PluginRecord& require(PluginKind kind, std::string_view id) const;

  /// The model plugin for an architecture; throws Error (unsupported) "unsupported architecture X
  /// (supported: ...)", and says of well-known autoregressive ones that they are no diffusion
  /// model.
  const PluginRecord& require_model(std::string_view architecture) const;

  /// `id` "auto": the usable backend with the highest preference. Throws Error (bad_usage) for an
  /// unknown id, (resource) with the reason for one that cannot be used.
  const PluginRecord& choose_backend(std::string_view id) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dllm
