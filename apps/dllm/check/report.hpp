// What the conformance kit found, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "dllm/plugin.hpp"
#include "output/json.hpp"

namespace dllm::cli {

enum class Verdict { kept, broken, not_asked };

struct Finding {
  std::string rule;
  std::string claim;
  Verdict verdict = Verdict::kept;
  std::string detail;  ///< how it is broken, or why it was not asked
};

std::size_t count_of(const std::vector<Finding>& findings, Verdict verdict);
std::string findings_text(const PluginRecord& record, const std::vector<Finding>& findings);
Json findings_json(const PluginRecord& record, const std::vector<Finding>& findings);

}  // namespace dllm::cli
