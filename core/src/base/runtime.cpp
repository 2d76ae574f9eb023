#include "dllm/runtime.hpp"

#include <utility>

#include "dllm/version.h"

namespace dllm {

Runtime::Runtime(RuntimeOptions options) : log_(std::move(options.sink)), plugins_(log_) {
  plugins_.scan(default_plugin_folders(options.plugin_folders));
}

Runtime::~Runtime() = default;

const char* version() noexcept { return DLLM_VERSION; }

}  // namespace dllm
