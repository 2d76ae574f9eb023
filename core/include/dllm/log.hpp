// One log sink, owned by the Runtime: "level component: message" lines.
//
//   log.info("plugins", "loaded sampler llada 1.0.0 from /path/x.so");
//
// Thread rule: log() may be called from any thread; a sink must take that.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace dllm {

enum class LogLevel : std::int32_t { debug = 0, info = 1, warning = 2, error = 3 };

using LogSink =
    std::function<void(LogLevel level, std::string_view component, std::string_view message)>;

class Log {
 public:
  Log() = default;
  explicit Log(LogSink sink) : sink_(std::move(sink)) {}

  void log(LogLevel level, std::string_view component, std::string_view message) const {
    if (sink_) sink_(level, component, message);
  }
  void debug(std::string_view c, std::string_view m) const { log(LogLevel::debug, c, m); }
  void info(std::string_view c, std::string_view m) const { log(LogLevel::info, c, m); }
  void warning(std::string_view c, std::string_view m) const { log(LogLevel::warning, c, m); }

 private:
  LogSink sink_;
};

}  // namespace dllm
