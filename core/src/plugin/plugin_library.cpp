#include "plugin/plugin_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <boost/dll/shared_library.hpp>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include "plugin/foreign_memory.hpp"
#include "plugin/foreign_text.hpp"
#include "plugin/option_infos.hpp"
#include "plugin/preset_infos.hpp"
#include "plugin/raw_logits.hpp"

namespace dllm {
namespace {

using boost::dll::shared_library;
namespace load_mode = boost::dll::load_mode;

constexpr const char* kReport = "report it to the author of the plugin";

// Boost reports "Bad file descriptor" for every failure; the loader's own text has the cause.
std::string dlerror_text(const boost::dll::fs::error_code& code) {
  const char* const text = ::dlerror();
  return printable(text != nullptr ? std::string(text) : code.message());
}

// Threads, thread-local destructors and thrown objects may point into a plugin, so closing its
// handle must not unmap it. Boost has no name for this flag.
void pin(const std::filesystem::path& path) {
  if (void* again = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) {
    ::dlclose(again);
  }
}

Refusal open_library(const std::filesystem::path& path, std::shared_ptr<shared_library>& library) {
  library = std::make_shared<shared_library>();
  boost::dll::fs::error_code code;
  // All symbols now, or a missing one would surface in the middle of a generation.
  library->load(path, load_mode::rtld_now | load_mode::rtld_local, code);
  if (!library->is_loaded()) {
    return {"the system's loader refused it: " + dlerror_text(code),
            "install what it needs, or rebuild it on this machine"};
  }
  pin(path);
  return {};
}

template <typename Call>
Refusal guarded_refusal(const char* what, Call&& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    return {fmt::format("{} let an exception escape: {}", what, message_of(e)), kReport};
  } catch (...) {
    return {fmt::format("{} let an exception of unknown type escape", what), kReport};
  }
}

Refusal call_entry(const shared_library& library, const dllm_host_v1* host, const void** out) {
  auto& entry = library.get<const void*(const dllm_host_v1*, dllm_error*)>(DLLM_PLUGIN_ENTRY_NAME);
  ErrorBuffer error;
  *out = entry(host, error.get());
  if (*out != nullptr) return {};
  const std::string message = error.text();
  return {
      "its start failed: " + (message.empty() ? std::string("it gave no reason") : message),
      message.empty() ? kReport : "remove the cause, or move the file out of the plugin folder"};
}

const char* missing_function(const dllm_sampler_v1& table) {
  if (table.create == nullptr) return "create";
  if (table.destroy == nullptr) return "destroy";
  if (table.start == nullptr) return "start";
  if (table.end == nullptr) return "end";
  if (table.plan == nullptr) return "plan";
  if (table.apply == nullptr) return "apply";
  return nullptr;
}

Refusal accept_sampler(const void* entry_result, PluginRecord& record) {
  // Size at ABI 1.0; later minors only append.
  constexpr std::size_t kFirstTableBytes =
      offsetof(dllm_sampler_v1, get_extension) + sizeof(dllm_sampler_v1::get_extension);
  const auto* table = static_cast<const dllm_sampler_v1*>(entry_result);
  const std::string fact = judge_memory(table, kFirstTableBytes, alignof(dllm_sampler_v1));
  if (!fact.empty()) return {"its sampler table: " + fact, kReport};
  if (table->struct_size < kFirstTableBytes) {
    return {fmt::format("its sampler table has {} bytes, ABI 1.0 needs {}", table->struct_size,
                        kFirstTableBytes),
            "rebuild against DllmPluginSdk 1.x"};
  }
  if (const char* name = missing_function(*table)) {
    return {fmt::format("its sampler table lacks the function {}", name), kReport};
  }
  auto infos = read_option_infos(table->options, table->n_options);
  if (auto* fact = std::get_if<std::string>(&infos)) {
    return {"its options are malformed: " + *fact, kReport};
  }
  record.options = std::get<std::vector<OptionInfo>>(std::move(infos));
  SamplerPresets offered;
  if (const std::string fact = read_presets(*table, record.options, offered); !fact.empty()) {
    return {"its presets are malformed: " + fact, kReport};
  }
  std::string malformed;
  find_raw_logits(*table, malformed);
  if (!malformed.empty()) return {"its table for raw logits is malformed: " + malformed, kReport};
  record.presets = std::move(offered.presets);
  record.aliases = std::move(offered.aliases);
  record.sampler = table;
  return {};
}

Refusal accept_backend(const void* entry_result, PluginRecord& record) {
  const auto* factory = static_cast<const BackendFactory*>(entry_result);
  const auto options = factory->options();
  record.options.assign(options.begin(), options.end());
  if (std::string fact = judge_option_infos(record.options); !fact.empty()) {
    return {"its options are malformed: " + fact, kReport};
  }
  record.backend = factory;
  return {};
}

Refusal accept_model(const void* entry_result, PluginRecord& record) {
  const auto* factory = static_cast<const ModelFactory*>(entry_result);
  if (factory->architectures().empty()) return {"it names no architecture", kReport};
  record.model = factory;
  return {};
}

Refusal accept(const void* entry_result, PluginRecord& record) {
  switch (record.kind) {
    case PluginKind::sampler:
      return accept_sampler(entry_result, record);
    case PluginKind::backend:
      return accept_backend(entry_result, record);
    case PluginKind::model:
      return accept_model(entry_result, record);
    case PluginKind::unknown:
      break;
  }
  return {"its kind is unknown", kReport};
}

}  // namespace

Refusal load_plugin(const dllm_host_v1* host, PluginRecord& record) {
  const KeptFloatingPoint kept;  // static constructors run too
  std::shared_ptr<shared_library> library;
  if (Refusal refusal = open_library(record.path, library); !refusal.fact.empty()) return refusal;
  if (!library->has(DLLM_PLUGIN_ENTRY_NAME)) {
    return {fmt::format("it does not export {}", DLLM_PLUGIN_ENTRY_NAME),
            "declare the plugin with the macros of DllmPluginSdk and rebuild"};
  }
  const void* result = nullptr;
  Refusal refusal =
      guarded_refusal("its entry", [&] { return call_entry(*library, host, &result); });
  if (!refusal.fact.empty()) return refusal;
  refusal = guarded_refusal("its table", [&] { return accept(result, record); });
  if (refusal.fact.empty()) record.library = std::move(library);
  return refusal;
}

}  // namespace dllm
