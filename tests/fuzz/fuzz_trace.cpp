// `dllm replay` on any trace: it is refused by line, or both samplers play on it to an end.
#include "dllm/engine.hpp"
#include "fuzz_target.hpp"
#include "memory_file.hpp"
#include "sampler_plugins.hpp"
#include "trace/replay_model.hpp"

namespace {

using namespace dllm::test;
using dllm::ErrorCode;
using dllm::cli::Trace;

constexpr std::size_t kMostPositions = 64;  // a longer canvas shows nothing new, slowly

dllm::SequenceRequest request(const Trace& trace, std::shared_ptr<const dllm::Sampler> sampler) {
  dllm::SequenceRequest out;
  out.ids = trace.header.ids;
  out.editable = trace.header.editable;
  out.sampler = std::move(sampler);
  out.facts = trace.header.facts;
  out.seed = trace.header.seed;
  out.ignore_eos = trace.header.ignore_eos;
  out.max_steps = 200;
  return out;
}

void replay(const Trace& trace, const LinkedSampler& plugin) {
  const auto recorded = plugin.id == trace.header.sampler
                            ? std::map<std::string, std::string, std::less<>>(
                                  trace.header.options.begin(), trace.header.options.end())
                            : std::map<std::string, std::string, std::less<>>();
  dllm::cli::ReplayModel model(trace);
  const auto length = static_cast<std::uint32_t>(trace.header.ids.size());
  dllm::Engine engine(
      model, {.max_sequences = 1, .max_sequence_length = length, .max_tokens = 2 * length});
  const auto id = engine.add(request(trace, plugin.make(recorded, trace.header.facts)));
  while (engine.running()) engine.step();
  const dllm::SequenceResult result = engine.result(id);
  FUZZ_REQUIRE(result.ids.size() == length);
  for (std::uint32_t i = 0; i < length; ++i) {
    FUZZ_REQUIRE(trace.header.editable[i] != 0 || result.ids[i] == trace.header.ids[i]);
    FUZZ_REQUIRE(result.ids[i] >= 0 &&
                 static_cast<std::uint32_t>(result.ids[i]) < trace.header.facts.n_vocab);
  }
  if (result.error != nullptr) FUZZ_REQUIRE(result.error->code() != ErrorCode::internal);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile memory;
  memory.set(as_text(data, size));
  Trace trace;
  const auto error = refusal_of([&] { trace = dllm::cli::read_trace(memory.path().string()); });
  if (error) {
    FUZZ_REQUIRE(error->code() == ErrorCode::bad_file);
    return 0;
  }
  if (trace.header.ids.size() > kMostPositions || trace.rounds.size() > kMostPositions) return 0;
  trace.header.facts.n_stop_ids = static_cast<std::uint32_t>(trace.header.stop_ids.size());
  trace.header.facts.stop_ids = trace.header.stop_ids.data();
  for (const LinkedSampler& plugin : linked_samplers()) {
    refusal_of([&] { replay(trace, plugin); });
  }
  return 0;
}
