#include "check/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output/console.hpp"

namespace dllm::cli {
namespace {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kept:
      return "kept";
    case Verdict::broken:
      return "broken";
    case Verdict::not_asked:
      return "not asked";
  }
  return "";
}

}  // namespace

std::size_t count_of(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(findings, verdict, &Finding::verdict));
}

std::string findings_text(const PluginRecord& record, const std::vector<Finding>& findings) {
  const std::string kind(plugin_kind_name(record.kind));
  // What no descriptor could be read of is only a file.
  std::string text = record.id.empty()
                         ? fmt::format("{}: no plugin\n", single_line(record.path.string()))
                         : fmt::format("{} {} {}\n", kind, record.id, record.version);
  for (const Finding& finding : findings) {
    const bool asked = finding.verdict != Verdict::not_asked;
    text += fmt::format("{:<9}  {:<18}  {}\n", verdict_name(finding.verdict), finding.rule,
                        asked ? finding.claim : finding.detail);
    if (asked && !finding.detail.empty())
      text += fmt::format("{:31}{}\n", "", single_line(finding.detail));
  }
  return text + fmt::format("{} kept, {} broken, {} not asked\n", count_of(findings, Verdict::kept),
                            count_of(findings, Verdict::broken),
                            count_of(findings, Verdict::not_asked));
}

Json findings_json(const PluginRecord& record, const std::vector<Finding>& findings) {
  Json rules = Json::array();
  for (const Finding& finding : findings) {
    rules.push_back({{"rule", finding.rule},
                     {"claim", finding.claim},
                     {"verdict", verdict_name(finding.verdict)},
                     {"detail", finding.detail}});
  }
  return {{"path", record.path.string()},
          {"kind", plugin_kind_name(record.kind)},
          {"id", record.id},
          {"version", record.version},
          {"rules", rules},
          {"broken", count_of(findings, Verdict::broken)}};
}

}  // namespace dllm::cli
