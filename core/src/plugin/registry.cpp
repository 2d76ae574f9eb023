#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>
#include <system_error>
#include <utility>

#include "dllm/plugin.hpp"
#include "plugin/host_table.hpp"
#include "plugin/plugin_descriptor.hpp"
#include "plugin/plugin_library.hpp"

namespace dllm {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> plugin_files(const fs::path& folder, const Log& log) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->path().extension() == ".so") files.push_back(entry->path());
  }
  if (code) {
    const bool no_files =
        code == std::errc::too_many_files_open || code == std::errc::too_many_files_open_in_system;
    log.warning("plugins", fmt::format("cannot read plugin folder {}: {}. Fix: {}.",
                                       folder.string(), code.message(),
                                       no_files ? "raise the limit of open files (ulimit -n)"
                                                : "check the path and its permissions"));
  }
  std::ranges::sort(files);
  return files;
}

void describe(const RawDescriptor& raw, const Refusal& refusal, PluginRecord& record) {
  const dllm_plugin_descriptor& d = raw.descriptor;
  // Another major may have laid the rest out differently: then only kind and path are shown.
  record.kind = plugin_kind_of(d);
  if (!refusal.fact.empty() && d.abi_major != DLLM_PLUGIN_ABI_MAJOR) return;
  record.id = descriptor_text(d.id);
  record.version = descriptor_text(d.version);
  record.summary = descriptor_text(d.summary);
}

}  // namespace

std::string_view plugin_kind_name(PluginKind kind) {
  switch (kind) {
    case PluginKind::sampler:
      return "sampler";
    case PluginKind::backend:
      return "backend";
    case PluginKind::model:
      return "model";
    case PluginKind::unknown:
      return "unknown";
  }
  return "unknown";
}

PluginRecord inspect_plugin(const fs::path& path) {
  PluginRecord record;
  record.path = path;
  const auto read = read_descriptor(path);
  Refusal refusal;
  if (const auto* raw = std::get_if<RawDescriptor>(&read)) {
    refusal = judge_descriptor(*raw);
    describe(*raw, refusal, record);
  } else {
    refusal = std::get<Refusal>(read);
  }
  if (!refusal.fact.empty()) record.reason = refusal.sentence();
  return record;
}

struct PluginRegistry::Impl {
  explicit Impl(const Log& sink) : log(sink), host(sink) {}

  const Log& log;
  HostTable host;
  std::vector<fs::path> folders;  // searched so far, for messages
  std::set<fs::path> seen;        // canonical: a file met again through a link is not judged twice
  std::vector<PluginRecord> records;

  bool first_time(const fs::path& file);
  const PluginRecord* holder_of_id(const PluginRecord& record) const;
  Refusal judge_duplicate(const PluginRecord& record) const;
  LogLevel refusal_level(const PluginRecord& record) const;
  void consider(const fs::path& file);
};

bool PluginRegistry::Impl::first_time(const fs::path& file) {
  std::error_code code;
  const fs::path real = fs::canonical(file, code);
  return seen.insert(code ? file : real).second;
}

const PluginRecord* PluginRegistry::Impl::holder_of_id(const PluginRecord& record) const {
  const auto found = std::ranges::find_if(records, [&](const PluginRecord& known) {
    return known.accepted && known.kind == record.kind && known.id == record.id;
  });
  return found == records.end() ? nullptr : &*found;
}

// Asked before the file is loaded, so that the code of the one that loses never runs.
Refusal PluginRegistry::Impl::judge_duplicate(const PluginRecord& record) const {
  const PluginRecord* holder = holder_of_id(record);
  if (holder == nullptr) return {};
  return {fmt::format("its {} id '{}' is taken by {}", plugin_kind_name(record.kind), record.id,
                      printable(holder->path.string())),
          "remove one of the two files, or give this one another id"};
}

// A second copy of the same version in a later folder (a build tree beside an installation) is how
// the search order is meant to work, and no warning on every run.
LogLevel PluginRegistry::Impl::refusal_level(const PluginRecord& record) const {
  const PluginRecord* holder = holder_of_id(record);
  const bool copy = holder != nullptr && holder->version == record.version &&
                    holder->path.parent_path() != record.path.parent_path();
  return copy ? LogLevel::debug : LogLevel::warning;
}

void PluginRegistry::Impl::consider(const fs::path& file) {
  if (!first_time(file)) return;
  PluginRecord record = inspect_plugin(file);
  if (record.reason.empty()) {
    Refusal refusal = judge_duplicate(record);
    if (refusal.fact.empty()) refusal = load_plugin(host.get(), record);
    record.accepted = refusal.fact.empty();
    if (!record.accepted) record.reason = refusal.sentence();
  }
  if (record.accepted) {
    log.debug("plugins", fmt::format("loaded {} {} {} from {}", plugin_kind_name(record.kind),
                                     record.id, record.version, printable(file.string())));
  } else {
    log.log(refusal_level(record), "plugins",
            fmt::format("refused {}: {}", printable(file.string()), record.reason));
  }
  records.push_back(std::move(record));
}

PluginRegistry::PluginRegistry(const Log& log) : impl_(std::make_unique<Impl>(log)) {}

PluginRegistry::~PluginRegistry() = default;

void PluginRegistry::scan(std::span<const fs::path> folders) {
  for (const fs::path& folder : folders) {
    impl_->folders.push_back(folder);
    for (const fs::path& file : plugin_files(folder, impl_->log)) impl_->consider(file);
  }
}

void PluginRegistry::scan_file(const fs::path& file) { impl_->consider(file); }

std::span<const PluginRecord> PluginRegistry::records() const noexcept { return impl_->records; }

std::span<const fs::path> PluginRegistry::folders() const noexcept { return impl_->folders; }

const PluginRecord* PluginRegistry::find(PluginKind kind, std::string_view id) const noexcept {
  const auto match = std::ranges::find_if(impl_->records, [&](const PluginRecord& record) {
    return record.accepted && record.kind == kind && record.id == id;
  });
  return match == impl_->records.end() ? nullptr : &*match;
}

std::vector<std::string> PluginRegistry::ids(PluginKind kind) const {
  std::vector<std::string> out;
  for (const PluginRecord& record : impl_->records) {
    if (record.accepted && record.kind == kind) out.push_back(record.id);
  }
  return out;
}

}  // namespace dllm
