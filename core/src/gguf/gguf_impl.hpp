// What a GgufFile holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dllm/gguf.hpp"
#include "gguf/part.hpp"

namespace dllm {

struct GgufFile::Impl {
  std::filesystem::path path;
  std::string name;               ///< the path, for messages
  std::vector<gguf::Part> parts;  ///< their tensors have moved to `tensors`
  std::vector<TensorInfo> tensors;
  std::vector<std::uint32_t> keys_by_name;
  std::vector<std::uint32_t> tensors_by_name;

  std::string_view key_of(std::uint32_t i) const { return parts.front().metadata[i].key; }
  std::string_view name_of(std::uint32_t i) const { return tensors[i].name; }
};

}  // namespace dllm
