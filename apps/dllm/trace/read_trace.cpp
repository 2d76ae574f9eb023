// A trace may come from anybody: every count, id and number is checked before it is used, and what
// does not fit is told with the line it stands in.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ios>
#include <iterator>
#include <limits>

#include "dllm/error.hpp"
#include "trace/trace.hpp"
#include "trace/trace_fields.hpp"

namespace dllm::cli {
namespace {

// Far above what `run --record` writes of the longest canvas; a larger file is none of its.
constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMaxPositions = std::size_t{1} << 20;
// Positions of all forwards together: a canvas is kept for each.
constexpr std::size_t kMaxCanvases = std::size_t{1} << 27;
constexpr std::size_t kMaxOptions = 1000;
constexpr std::size_t kMaxStopIds = 1000;
constexpr std::size_t kMaxTopList = 64;
constexpr std::int64_t kMaxU32 = UINT32_MAX;
constexpr std::int64_t kMaxI32 = INT32_MAX;

std::uint32_t edit_kind(const std::string& name) {
  for (std::uint32_t kind = DLLM_EDIT_COMMIT; kind <= DLLM_EDIT_COMMIT_REVOCABLE; ++kind) {
    if (name == edit_kind_name(kind)) return kind;
  }
  throw Fault("'kind' of an edit is none of commit, replace, remask, commit_revocable");
}

// The bytes of a piece: each code point below 256 is one. The text is valid UTF-8.
std::string text_as_bytes(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      bytes += text[i];
    } else if (lead <= 0xC3 && i + 1 < text.size()) {
      bytes +=
          static_cast<char>(((lead & 0x03) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3F));
    } else {
      throw Fault("a piece holds a character above U+00FF");
    }
  }
  return bytes;
}

// Reads the lines of one file; knows the vocabulary and the canvas once the header is read.
class TraceReader {
 public:
  explicit TraceReader(Trace& trace) : trace_(trace), header_(trace.header) {}

  void line(const std::string& text, std::size_t number) {
    const TraceJson json = parse_trace_line(text);
    const bool first = number == 1;
    if (trace_.end) throw Fault("a line behind the last");
    const Fields fields(json, first ? "the header" : "the line");
    if (first) {
      header(fields);
    } else if (fields.has("round")) {
      keep(round(Fields(json, "the round"), number));
    } else {
      trace_.end = end(Fields(json, "the last line"));
    }
  }

 private:
  std::int64_t last_id() const { return std::int64_t{header_.facts.n_vocab} - 1; }
  std::size_t n_positions() const { return header_.ids.size(); }

  void header(const Fields& line) {
    if (!line.has("trace")) throw Fault("no trace: the first line has no key 'trace'");
    const auto version = line.integer<std::uint32_t>("trace", 0, kMaxU32);
    if (version != kTraceVersion) {
      throw Fault(fmt::format("a trace of version {}, this dllm reads {}", version, kTraceVersion));
    }
    header_.model = line.text("model");
    header_.sampler = line.text("sampler");
    for (auto& [name, value] : line.texts("options", kMaxOptions)) header_.options[name] = value;
    header_.seed = line.seed("seed");
    header_.ignore_eos = line.boolean("ignore_eos");
    facts(line.object("facts", "the facts"));
    header_.ids = line.integers<std::int32_t>("ids", kMaxPositions, 0, last_id());
    header_.editable = line.integers<std::uint8_t>("editable", kMaxPositions, 0, 1);
    if (header_.ids.empty() || header_.editable.size() != header_.ids.size()) {
      throw Fault(
          fmt::format("{} ids and {} editable flags", header_.ids.size(), header_.editable.size()));
    }
  }

  void facts(const Fields& from) {
    dllm_model_facts& facts = header_.facts;
    facts.struct_size = sizeof facts;
    facts.n_vocab = from.integer<std::uint32_t>("n_vocab", 1, kMaxI32);
    facts.n_tokens = from.integer<std::uint32_t>("n_tokens", 1, facts.n_vocab);
    facts.mask_id = from.integer<std::int32_t>("mask_id", 0, last_id());
    facts.bos_id = from.integer<std::int32_t>("bos_id", -1, last_id());
    facts.eos_id = from.integer<std::int32_t>("eos_id", -1, last_id());
    facts.eot_id = from.integer<std::int32_t>("eot_id", -1, last_id());
    facts.pad_id = from.integer<std::int32_t>("pad_id", -1, last_id());
    facts.context_length = from.integer<std::uint32_t>("context_length", 0, kMaxU32);
    facts.trained_block_length = from.integer<std::uint32_t>("trained_block_length", 0, kMaxU32);
    header_.stop_ids = from.integers<std::int32_t>("stop_ids", kMaxStopIds, 0, last_id());
  }

  TracePlan plan(const Fields& from) const {
    constexpr double kLargest = std::numeric_limits<float>::max();
    TracePlan plan;
    plan.positions = positions(from, "positions");
    plan.want = from.integer<std::uint32_t>("want", 0, kMaxU32);
    const std::string domain = from.text("domain");
    if (domain != "raw" && domain != "filtered") {
      throw Fault("'domain' of the plan is neither raw nor filtered");
    }
    plan.domain = domain == "filtered" ? DLLM_DOMAIN_FILTERED : DLLM_DOMAIN_RAW;
    plan.allow_all = from.boolean("allow_all");
    plan.temperature = from.number("temperature", 0, kLargest);
    plan.top_p = from.number("top_p", 0, 1);
    plan.top_k = from.integer<std::uint32_t>("top_k", 0, kMaxU32);
    plan.guidance_scale = from.number("guidance_scale", -kLargest, kLargest);
    plan.suppress_both = ids(from, "suppress_both");
    plan.suppress_confidence = ids(from, "suppress_confidence");
    return plan;
  }

  std::vector<std::int32_t> ids(const Fields& from, const char* key) const {
    return from.integers<std::int32_t>(key, header_.facts.n_vocab, 0, last_id());
  }

  std::vector<std::uint32_t> positions(const Fields& from, const char* key) const {
    auto out = from.integers<std::uint32_t>(key, n_positions(), 0,
                                            static_cast<std::int64_t>(n_positions()) - 1);
    if (std::ranges::adjacent_find(out, std::greater_equal<>()) != out.end()) {
      throw Fault(fmt::format("'{}' of the plan do not ascend", key));
    }
    return out;
  }

  // Of an editable position.
  std::uint32_t editable_position(const Fields& from, const char* what) const {
    const auto position =
        from.integer<std::uint32_t>("position", 0, static_cast<std::int64_t>(n_positions()) - 1);
    if (header_.editable[position] == 0) {
      throw Fault(fmt::format("{} of position {}, which is not editable", what, position));
    }
    return position;
  }

  TraceRow row(const Fields& from, const TracePlan& plan) const {
    TraceRow row;
    row.position = editable_position(from, "a row");
    row.sampled = from.integer<std::int32_t>("sampled", -1, last_id());
    row.sampled_prob = from.probability("sampled_prob");
    row.argmax = from.integer<std::int32_t>("argmax", -1, last_id());
    row.top1_prob = from.probability("top1_prob");
    row.top2_prob = from.probability("top2_prob");
    row.entropy = from.number("entropy");
    row.log_sum_exp = from.number("log_sum_exp");
    check_tokens(row, plan);
    check_figure(row, "sampled_prob", row.sampled, row.sampled_prob);
    check_figure(row, "top1_prob", row.argmax, row.top1_prob);
    check_figure(row, "top2_prob", row.argmax, row.top2_prob);
    check_figure(row, "entropy", row.argmax, row.entropy);
    row.top_ids = from.integers<std::int32_t>("top_ids", kMaxTopList, -1, last_id());
    row.top_probs = from.numbers("top_probs", kMaxTopList, 0, kMaxProbability);
    check_list(row);
    return row;
  }

  // Of what is not finite the model's answer has no token; a run that asked for it ended there.
  void check_tokens(const TraceRow& row, const TracePlan& plan) const {
    if (row.sampled >= 0 && row.argmax >= 0) {
      check_produced(row, "sampled", row.sampled, plan);
      check_produced(row, "argmax", row.argmax, plan);
      return;
    }
    if (row.sampled >= 0 || row.argmax >= 0) {
      throw Fault(fmt::format(
          "a row of position {} with 'sampled' {} and 'argmax' {}: both are tokens, or neither",
          row.position, row.sampled, row.argmax));
    }
    if (std::ranges::binary_search(plan.positions, row.position)) {
      throw Fault(
          fmt::format("a row of position {} without tokens ('sampled' and 'argmax' are -1), which "
                      "the plan asks for",
                      row.position));
    }
  }

  // What the plan suppresses the model did not answer; a sampler would commit it, and be blamed.
  void check_produced(const TraceRow& row, const char* key, std::int32_t token,
                      const TracePlan& plan) const {
    const std::uint32_t n_tokens = header_.facts.n_tokens;
    const bool known = static_cast<std::uint32_t>(token) < n_tokens;
    if (plan.allow_all || (known && token != header_.facts.mask_id)) return;
    throw Fault(fmt::format("a row of position {} whose '{}' {} is {}", row.position, key, token,
                            known ? "the mask, which the plan suppresses"
                                  : fmt::format("beyond the facts' {} tokens", n_tokens)));
  }

  // The rows of a forward are those of every editable position.
  void check_rows(const TraceRound& round) const {
    const auto behind =
        std::ranges::adjacent_find(round.rows, std::greater_equal<>(), &TraceRow::position);
    if (behind != round.rows.end()) {
      throw Fault(fmt::format("a row of position {} behind that of position {}",
                              std::next(behind)->position, behind->position));
    }
    if (!round.forward) return;
    auto row = round.rows.begin();
    for (std::uint32_t position = 0; position < n_positions(); ++position) {
      if (header_.editable[position] == 0) continue;
      if (row == round.rows.end() || row->position != position) {
        throw Fault(fmt::format("no row of position {}, which is editable", position));
      }
      ++row;
    }
  }

  // A sampler would take a figure that is not there for a confidence, and be blamed for it.
  static void check_figure(const TraceRow& row, const char* key, std::int32_t token, float value) {
    if (token >= 0 && !std::isfinite(value))
      throw Fault(fmt::format("a row of position {} without its {}", row.position, key));
  }

  // Logits are computed from the list: no token twice, and none without the sum.
  static void check_list(const TraceRow& row) {
    if (row.top_ids.empty() || row.top_ids.size() != row.top_probs.size()) {
      throw Fault(fmt::format("a row of position {} with {} tokens and {} probabilities",
                              row.position, row.top_ids.size(), row.top_probs.size()));
    }
    for (std::size_t i = 0; i < row.top_ids.size(); ++i) {
      if (!(row.top_probs[i] > 0)) continue;
      const auto behind = row.top_ids.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      if (!std::isfinite(row.log_sum_exp)) {
        throw Fault(fmt::format("a row of position {} without its log_sum_exp", row.position));
      }
      if (row.top_ids[i] < 0 ||
          std::find(behind, row.top_ids.end(), row.top_ids[i]) != row.top_ids.end()) {
        throw Fault(fmt::format("a row of position {} with token {} twice or out of place",
                                row.position, row.top_ids[i]));
      }
    }
  }

  dllm_edit edit(const Fields& from) const {
    dllm_edit edit{};
    edit.position = editable_position(from, "an edit");
    edit.kind = edit_kind(from.text("kind"));
    const bool remask = edit.kind == DLLM_EDIT_REMASK;  // whose token nobody reads
    edit.token =
        from.integer<std::int32_t>("token", remask ? INT32_MIN : 0, remask ? kMaxI32 : last_id());
    edit.confidence = from.number("confidence");
    return edit;
  }

  // Rounds count from 0, and one that finished is the last.
  void check_order(const Fields& line) const {
    const std::size_t due = trace_.rounds.size();
    if (due > 0 && trace_.rounds.back().finished) {
      throw Fault(fmt::format("a round behind round {}, which finished the run", due - 1));
    }
    const auto number = line.integer<std::uint32_t>("round", 0, kMaxU32);
    if (number != due) throw Fault(fmt::format("round {} where round {} is due", number, due));
  }

  TraceRound round(const Fields& line, std::size_t number) const {
    TraceRound round;
    check_order(line);
    round.line = number;
    round.round = static_cast<std::uint32_t>(trace_.rounds.size());
    round.forward = line.boolean("forward");
    round.plan = plan(line.object("plan", "the plan"));
    for (const TraceJson& from : line.list("rows", n_positions())) {
      round.rows.push_back(row(Fields(from, "a row"), round.plan));
    }
    check_rows(round);
    for (const TraceJson& from : line.list("edits", n_positions())) {
      round.edits.push_back(edit(Fields(from, "an edit")));
    }
    round.finished = line.boolean("finished");
    return round;
  }

  void keep(TraceRound round) {
    if (round.forward && ++n_forwards_ * n_positions() > kMaxCanvases) {
      throw Fault(fmt::format("{} forwards of a canvas of {}: more than {} positions in all",
                              n_forwards_, n_positions(), kMaxCanvases));
    }
    trace_.rounds.push_back(std::move(round));
  }

  TraceEnd end(const Fields& line) const {
    TraceEnd end;
    end.finish_reason = line.text("finish_reason");
    end.ids = ids_at_the_end(line);
    for (const auto& [key, piece] : line.texts("pieces", header_.facts.n_vocab)) {
      std::int32_t id = -1;
      const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || stop != key.data() + key.size() || id < 0 || id > last_id()) {
        throw Fault(fmt::format("a piece of what is no token (0 to {})", last_id()));
      }
      end.pieces[id] = text_as_bytes(piece);
    }
    return end;
  }

  std::vector<std::int32_t> ids_at_the_end(const Fields& line) const {
    auto ids = line.integers<std::int32_t>("ids", n_positions(), 0, last_id());
    if (ids.size() == n_positions()) return ids;
    throw Fault(fmt::format("{} ids at the end, {} at the start", ids.size(), n_positions()));
  }

  Trace& trace_;
  TraceHeader& header_;
  std::size_t n_forwards_ = 0;
};

// The next line without its end; false at the end of the file.
bool next_line(std::istream& in, std::string& text) {
  text.clear();
  auto& buffer = *in.rdbuf();
  for (int c = buffer.sbumpc(); c != std::char_traits<char>::eof(); c = buffer.sbumpc()) {
    if (c == '\n') return true;
    if (text.size() == kMaxLineBytes) {
      throw Fault(fmt::format("longer than {} MiB", kMaxLineBytes >> 20));
    }
    text += static_cast<char>(c);
  }
  return !text.empty();
}

[[noreturn]] void refuse_unreadable(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::bad_usage, fmt::format("cannot read the trace '{}': {}", path, reason),
              "TRACE", "give a file that `dllm run --record FILE` wrote");
}

void read_lines(std::istream& in, Trace& trace) {
  TraceReader reader(trace);
  std::string text;
  std::uint64_t n_bytes = 0;
  std::size_t number = 1;
  try {
    for (; next_line(in, text); ++number) {
      n_bytes += text.size();
      if (n_bytes > kMaxFileBytes) {
        throw Fault(fmt::format("the trace is larger than {} MiB", kMaxFileBytes >> 20));
      }
      reader.line(text, number);
    }
  } catch (const Fault& fault) {
    throw Error(ErrorCode::bad_file, fault.what(), trace_place(trace, number),
                "record it again with `dllm run --record FILE`");
  } catch (const std::ios_base::failure& failure) {
    refuse_unreadable(trace.path, failure.code().message());
  }
}

}  // namespace

Trace read_trace(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const int why = errno;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (!in || is_folder) {
    refuse_unreadable(path, is_folder ? "it is a folder" : std::strerror(why));
  }
  Trace trace;
  trace.path = path;
  read_lines(in, trace);
  const bool any = std::ranges::any_of(
      trace.rounds, [](const TraceRound& round) { return round.forward && !round.rows.empty(); });
  if (!any) {
    const bool nothing = trace.header.ids.empty();
    throw Error(ErrorCode::bad_file, nothing ? "the trace is empty" : "the trace holds no forward",
                path, "record it again with `dllm run --record FILE`");
  }
  return trace;
}

}  // namespace dllm::cli
