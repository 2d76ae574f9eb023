// What the text and the JSON form of inspect share.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "dllm/gguf.hpp"

namespace dllm::gguf {

/// Name of the type; "type 99" for the unknown types that a scan can meet.
std::string type_text(DType dtype);

struct TypeUse {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// How many tensors there are of each type, by name.
std::map<std::string, TypeUse> count_types(const GgufFile& file);

}  // namespace dllm::gguf
