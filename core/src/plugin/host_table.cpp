#include "plugin/host_table.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "plugin/foreign_text.hpp"

namespace dllm {

struct HostTable::Shared {
  dllm_host_v1 table{};
  std::shared_mutex guard;  // readers log; the registry's end takes the log away
  const Log* log = nullptr;

  static void write(void* context, std::int32_t level, const char* component, const char* message) {
    auto* self = static_cast<Shared*>(context);
    if (self == nullptr || message == nullptr) return;
    try {
      const std::shared_lock lock(self->guard);
      if (self->log == nullptr) return;
      self->log->log(static_cast<LogLevel>(std::clamp(level, DLLM_LOG_DEBUG, DLLM_LOG_ERROR)),
                     component == nullptr ? "plugin" : printable(component), printable(message));
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // A sink that throws must not unwind through the plugin's C frames; the line is lost.
    }
  }
};

namespace {

const void* no_extension(void*, const char*) { return nullptr; }

}  // namespace

HostTable::HostTable(const Log& log) {
  // Append-only and never freed: a plugin may log from its own threads until the very end.
  static auto& kept = *new std::vector<std::unique_ptr<Shared>>;
  static std::mutex kept_guard;
  auto shared = std::make_unique<Shared>();
  shared->log = &log;
  shared->table = {.struct_size = sizeof(dllm_host_v1),
                   .abi_major = DLLM_PLUGIN_ABI_MAJOR,
                   .abi_minor = DLLM_PLUGIN_ABI_MINOR,
                   .context = shared.get(),
                   .log = &Shared::write,
                   .get_extension = &no_extension};
  shared_ = shared.get();
  const std::lock_guard lock(kept_guard);
  kept.push_back(std::move(shared));
}

HostTable::~HostTable() {
  const std::unique_lock lock(shared_->guard);
  shared_->log = nullptr;
}

const dllm_host_v1* HostTable::get() const noexcept { return &shared_->table; }

}  // namespace dllm
