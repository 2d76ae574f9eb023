// A recorded run: what the sampler planned, what a model answered, what the sampler did.
//
// The file is JSON lines. The first holds the run (`TraceHeader`), then one a round (`TraceRound`),
// the last the outcome and the text of every token that occurs (`TraceEnd`); a run that failed has
// no last line. `dllm run --record` writes it, `dllm replay` reads it; docs/replay.md has the
// fields. Thread rule: values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dllm_sdk/sampler_abi.h"

namespace dllm::cli {

constexpr std::uint32_t kTraceVersion = 1;
/// Tokens listed of each row. 64 is the ABI's limit; beyond the first 16 little is left to choose.
constexpr std::uint32_t kTraceTopList = 16;

struct TraceHeader {
  std::string model;
  std::string sampler;
  std::map<std::string, std::string> options;
  std::uint64_t seed = 0;
  bool ignore_eos = false;
  dllm_model_facts facts{};  ///< stop_ids points to the vector below
  std::vector<std::int32_t> stop_ids;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> editable;
};

/// The plan's parameters, as far as they say what the statistics are of.
struct TracePlan {
  std::vector<std::uint32_t> positions;
  std::uint32_t want = 0;
  std::uint32_t domain = DLLM_DOMAIN_RAW;
  bool allow_all = false;
  float temperature = 0;
  float top_p = 1;
  std::uint32_t top_k = 0;
  float guidance_scale = 0;
  std::vector<std::int32_t> suppress_both, suppress_confidence;

  bool same_statistics(const TracePlan& other) const;
};

/// Every statistic of one position. Where the model's were not finite there are no tokens (-1).
struct TraceRow {
  std::uint32_t position = 0;
  std::int32_t sampled = -1;
  float sampled_prob = 0;
  std::int32_t argmax = -1;
  float top1_prob = 0;
  float top2_prob = 0;
  float entropy = 0;
  float log_sum_exp = 0;
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_probs;
};

struct TraceRound {
  std::uint32_t round = 0;
  std::size_t line = 0;  ///< of the file
  bool forward = false;
  TracePlan plan;
  std::vector<TraceRow> rows;  ///< of every editable position, ascending; none without a forward
  std::vector<dllm_edit> edits;
  bool finished = false;
};

struct TraceEnd {
  std::string finish_reason;
  std::vector<std::int32_t> ids;
  std::map<std::int32_t, std::string> pieces;  ///< token to its bytes
};

struct Trace {
  std::string path;  ///< of the file
  TraceHeader header;
  std::vector<TraceRound> rounds;
  std::optional<TraceEnd> end;
};

/// Where in the file something stands: "trace.jsonl, line 3".
std::string trace_place(const Trace& trace, std::size_t line);

TracePlan trace_plan(const dllm_plan& plan);

/// "commit", "replace", "remask", "commit_revocable".
std::string_view edit_kind_name(std::uint32_t kind);

/// Throws Error (bad_usage) for a file that cannot be read, (bad_file) naming line and fault for
/// one that is no trace or contradicts itself.
Trace read_trace(const std::string& path);

}  // namespace dllm::cli
