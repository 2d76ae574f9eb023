// Writes a trace while a run goes on: `dllm run --record FILE`.
//
//   TraceWriter writer(path, header, tokenizer);
//   request.recorder = [&](const SequenceRound& round) { writer.add(round); };
//   ...
//   writer.finish(ids, "stop");
//
// Thread rule: one thread.
#pragma once

#include <set>
#include <string>

#include "dllm/engine.hpp"
#include "dllm/tokenizer.hpp"
#include "output/complete_file.hpp"
#include "trace/trace.hpp"

namespace dllm::cli {

class TraceWriter {
 public:
  /// The file is there once finish() or keep_rounds() returned, or not at all. Throws Error
  /// (bad_usage) where it cannot be written.
  TraceWriter(const std::string& path, const TraceHeader& header, const Tokenizer& tokenizer);

  void add(const SequenceRound& round);
  /// Throws Error (resource) when anything could not be written.
  void finish(const std::vector<std::int32_t>& canvas, const std::string& finish_reason);
  /// After a run that failed: keeps the rounds so far, without the last line; what cannot be
  /// written is then absent, since the run's own error is the one to report.
  void keep_rounds() noexcept;

 private:
  CompleteFile file_;
  const Tokenizer& tokenizer_;
  std::set<std::int32_t> seen_;  // tokens that occur, for the pieces
};

}  // namespace dllm::cli
