#include "gguf/inspect_common.hpp"

#include <fmt/format.h>

namespace dllm::gguf {

std::string type_text(DType dtype) {
  const DTypeInfo* info = find_dtype(static_cast<std::uint32_t>(dtype));
  return info != nullptr ? std::string(info->name)
                         : fmt::format("type {}", static_cast<std::uint32_t>(dtype));
}

std::map<std::string, TypeUse> count_types(const GgufFile& file) {
  std::map<std::string, TypeUse> counts;
  for (const TensorInfo& tensor : file.tensors()) {
    TypeUse& use = counts[type_text(tensor.dtype)];
    use.tensors += 1;
    use.bytes += tensor.bytes;
  }
  return counts;
}

}  // namespace dllm::gguf
