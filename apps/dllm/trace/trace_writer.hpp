// Writes a trace while a run goes on: `dllm run --record FILE`.
//
//   TraceWriter writer(path, header, tokenizer);
//   request.recorder = [&](const SequenceRound& round) { writer.add(round); };
//   ...
//   writer.finish(ids, "stop");
//
// Thread rule: one thread.
#pragma once

#include <fstream>
#include <set>
#include <string>

#include "dllm/engine.hpp"
#include "dllm/tokenizer.hpp"
#include "trace/trace.hpp"

namespace dllm::cli {

class TraceWriter {
 public:
  /// Creates or empties the file. Throws Error (bad_usage) where it cannot be written.
  TraceWriter(const std::string& path, const TraceHeader& header, const Tokenizer& tokenizer);

  void add(const SequenceRound& round);
  /// Throws Error (resource) when anything could not be written.
  void finish(const std::vector<std::int32_t>& canvas, const std::string& finish_reason);

 private:
  std::string path_;
  const Tokenizer& tokenizer_;
  std::ofstream out_;
  std::set<std::int32_t> seen_;  // tokens that occur, for the pieces
};

}  // namespace dllm::cli
