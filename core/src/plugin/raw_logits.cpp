#include "plugin/raw_logits.hpp"

#include <fmt/format.h>

#include "plugin/foreign_memory.hpp"

namespace dllm {

const dllm_raw_logits_v1* find_raw_logits(const dllm_sampler_v1& table, std::string& fact) {
  if (table.get_extension == nullptr) return nullptr;
  const auto* found =
      static_cast<const dllm_raw_logits_v1*>(table.get_extension(DLLM_EXTENSION_RAW_LOGITS));
  if (found == nullptr) return nullptr;
  fact = judge_memory(found);
  if (!fact.empty()) return nullptr;
  if (found->struct_size < sizeof *found) {
    fact = fmt::format("it has {} bytes, {} are needed", found->struct_size, sizeof *found);
  } else if (found->take == nullptr) {
    fact = "it lacks the function take";
  }
  return fact.empty() ? found : nullptr;
}

}  // namespace dllm
