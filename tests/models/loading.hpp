// Loading a tiny model file into a backend that records, for the tests of what loads and what not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dllm/error.hpp"
#include "model_common/transformer.hpp"
#include "recording_backend.hpp"
#include "tiny_file.hpp"

namespace dllm::test {

using model_common::Architecture;

inline constexpr Architecture kLlada{"llada", RopeKind::norm, false, false, "llada"};
inline constexpr Architecture kDream{"dream", RopeKind::neox, true, true, "dream"};

inline const Architecture& architecture(const std::string& name) {
  return name == "dream" ? kDream : kLlada;
}

/// What a load came to.
struct Loading {
  ModelInfo info;
  std::vector<std::string> log;
  std::string error;
  ErrorCode code = ErrorCode::internal;
};

inline Loading load(const TinyFile& file, RecordingBackend& backend, const std::string& arch) {
  Loading result;
  const Log log([&](LogLevel level, std::string_view, std::string_view message) {
    result.log.push_back((level == LogLevel::warning ? "warning: " : "info: ") +
                         std::string(message));
  });
  try {
    const model_common::TransformerFactory factory(architecture(arch));
    const auto gguf = file.open();
    result.info = factory.describe(*gguf);
    factory.load(gguf, backend, log, {});
  } catch (const Error& error) {
    result.error = error.what();
    result.code = error.code();
  }
  return result;
}

inline Loading load(const TinyFile& file, const std::string& arch) {
  RecordingBackend backend;
  return load(file, backend, arch);
}

}  // namespace dllm::test
