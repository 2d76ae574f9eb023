#include "bench/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ostream>

#include "output/complete_file.hpp"

namespace dllm::cli {
namespace {

constexpr int kProcess = 1;
constexpr std::size_t kReserved = 1u << 16;

Json row_name(std::size_t row, const std::string& name) {
  return {{"name", "thread_name"},
          {"ph", "M"},
          {"pid", kProcess},
          {"tid", row},
          {"args", {{"name", name}}}};
}

Json event(std::string_view name, std::string_view category, std::size_t row, std::int64_t begin_ns,
           std::int64_t end_ns, std::int64_t origin_ns, Json arguments) {
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"pid", kProcess},
          {"tid", row},
          {"ts", static_cast<double>(begin_ns - origin_ns) / 1e3},
          {"dur", static_cast<double>(end_ns - begin_ns) / 1e3},
          {"args", std::move(arguments)}};
}

Json work_of(const StageSpan& span) {
  Json arguments = Json::object();
  const double operations = span.integer_operations + span.float_operations;
  if (operations > 0) arguments["operations"] = operations;
  if (span.weight_bytes > 0) arguments["weight_bytes"] = span.weight_bytes;
  return arguments;
}

// The op whose span holds a moment; ops do not overlap.
class OpFinder {
 public:
  explicit OpFinder(const std::vector<StageSpan>& spans) {
    for (const StageSpan& span : spans)
      if (!span.is_part) ops_.push_back(&span);
    std::ranges::sort(ops_, {}, &StageSpan::begin_ns);
  }
  const StageSpan* at(std::int64_t ns) const {
    const auto after = std::ranges::upper_bound(ops_, ns, {}, &StageSpan::begin_ns);
    if (after == ops_.begin()) return nullptr;
    const StageSpan* op = *std::prev(after);
    return ns <= op->end_ns ? op : nullptr;
  }

 private:
  std::vector<const StageSpan*> ops_;
};

std::int64_t first_moment(const TraceRecorder& recorder) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const StageSpan& span : recorder.spans()) first = std::min(first, span.begin_ns);
  return first;
}

}  // namespace

TraceRecorder::TraceRecorder(std::uint32_t n_threads) : work_(std::max(n_threads, 1u)) {
  spans_.reserve(kReserved);
  for (auto& each : work_) each.reserve(kReserved);
}

void TraceRecorder::work(const WorkSpan& span) {
  if (span.thread < work_.size()) work_[span.thread].push_back(span);
}

Json trace_json(const TraceRecorder& recorder, const Json& about) {
  const std::int64_t origin = first_moment(recorder);
  const OpFinder ops(recorder.spans());
  Json events = Json::array();
  events.push_back(row_name(0, "step"));
  for (const StageSpan& span : recorder.spans())
    events.push_back(event(span.name, span.is_part ? "part" : stage_name(span.stage), 0,
                           span.begin_ns, span.end_ns, origin, work_of(span)));
  for (std::size_t thread = 0; thread < recorder.work_of_threads().size(); ++thread) {
    events.push_back(row_name(thread + 1, fmt::format("thread {}", thread)));
    for (const WorkSpan& work : recorder.work_of_threads()[thread]) {
      const StageSpan* op = ops.at(work.begin_ns);
      events.push_back(event(op ? op->name : "work", op ? stage_name(op->stage) : "other",
                             thread + 1, work.begin_ns, work.end_ns, origin,
                             {{"first_item", work.first_item}, {"items", work.n_items}}));
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"otherData", about}};
}

void write_trace(const std::string& path, const TraceRecorder& recorder, const Json& about) {
  write_complete_file(path, "--trace", [&](std::ostream& out) {
    out << dump_line(trace_json(recorder, about)) << '\n';
  });
}

}  // namespace dllm::cli
