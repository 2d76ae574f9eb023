#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include "dllm/error.hpp"
#include "output/json.hpp"
#include "session/text_input.hpp"
#include "trace/trace.hpp"

namespace dllm::cli {
namespace {

// What is wrong with a line; the reader adds file and line number.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

float number(const Json& value) {
  if (value.is_null()) return std::numeric_limits<float>::quiet_NaN();
  const auto wide = value.get<double>();
  if (std::abs(wide) > static_cast<double>(std::numeric_limits<float>::max())) {
    throw Fault(fmt::format("{} is no 32-bit number", value.dump()));
  }
  return static_cast<float>(wide);
}

// The library would cut a number to any type.
template <typename T>
T integer(const Json& value) {
  const bool fits = value.is_number_unsigned()  ? std::in_range<T>(value.get<std::uint64_t>())
                    : value.is_number_integer() ? std::in_range<T>(value.get<std::int64_t>())
                                                : false;
  if (!fits) {
    throw Fault(fmt::format("{} is no integer from {} to {}", value.dump(),
                            std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
  return value.get<T>();
}

template <typename T>
std::vector<T> integers(const Json& list) {
  if (!list.is_array()) throw Fault(fmt::format("{} is no list", list.dump()));
  std::vector<T> values;
  for (const Json& value : list) values.push_back(integer<T>(value));
  return values;
}

// Of a token, or -1 where a row has none.
std::int32_t token_or_none(const Json& value, const TraceHeader& header) {
  const auto id = integer<std::int32_t>(value);
  if (id < -1 || (id >= 0 && static_cast<std::uint32_t>(id) >= header.facts.n_vocab)) {
    throw Fault(fmt::format("token {} is outside the vocabulary of {}", id, header.facts.n_vocab));
  }
  return id;
}

std::uint32_t edit_kind(const std::string& name) {
  for (std::uint32_t kind = DLLM_EDIT_COMMIT; kind <= DLLM_EDIT_COMMIT_REVOCABLE; ++kind) {
    if (name == edit_kind_name(kind)) return kind;
  }
  throw Fault(fmt::format("an edit is of kind '{}'", name));
}

// The bytes of a piece: each code point below 256 is one.
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

void check_header(const TraceHeader& header) {
  if (header.ids.empty() || header.editable.size() != header.ids.size()) {
    throw Fault(
        fmt::format("{} ids and {} editable flags", header.ids.size(), header.editable.size()));
  }
  const auto outside = [&](std::int32_t id) {
    return id < 0 || static_cast<std::uint32_t>(id) >= header.facts.n_vocab;
  };
  if (std::ranges::any_of(header.ids, outside) || outside(header.facts.mask_id)) {
    throw Fault(fmt::format("an id is outside the vocabulary of {}", header.facts.n_vocab));
  }
  if (header.facts.n_tokens > header.facts.n_vocab) {
    throw Fault(fmt::format("{} tokens, {} rows of the vocabulary", header.facts.n_tokens,
                            header.facts.n_vocab));
  }
}

TraceHeader read_header(const Json& line) {
  if (!line.contains("trace")) throw Fault("no trace: the first line has no key 'trace'");
  if (const auto version = integer<std::uint32_t>(line.at("trace")); version != kTraceVersion) {
    throw Fault(fmt::format("a trace of version {}, this dllm reads {}", version, kTraceVersion));
  }
  TraceHeader header;
  header.model = line.at("model");
  header.sampler = line.at("sampler");
  header.options = line.at("options");
  header.seed = integer<std::uint64_t>(line.at("seed"));
  header.ignore_eos = line.at("ignore_eos");
  header.ids = integers<std::int32_t>(line.at("ids"));
  header.editable = integers<std::uint8_t>(line.at("editable"));
  const Json& facts = line.at("facts");
  header.facts.struct_size = sizeof header.facts;
  header.facts.n_vocab = integer<std::uint32_t>(facts.at("n_vocab"));
  header.facts.n_tokens = integer<std::uint32_t>(facts.at("n_tokens"));
  header.facts.mask_id = integer<std::int32_t>(facts.at("mask_id"));
  header.facts.bos_id = integer<std::int32_t>(facts.at("bos_id"));
  header.facts.eos_id = integer<std::int32_t>(facts.at("eos_id"));
  header.facts.eot_id = integer<std::int32_t>(facts.at("eot_id"));
  header.facts.pad_id = integer<std::int32_t>(facts.at("pad_id"));
  header.facts.context_length = integer<std::uint32_t>(facts.at("context_length"));
  header.facts.trained_block_length = integer<std::uint32_t>(facts.at("trained_block_length"));
  header.stop_ids = integers<std::int32_t>(facts.at("stop_ids"));
  check_header(header);
  return header;
}

TracePlan read_plan(const Json& json) {
  TracePlan plan;
  plan.positions = integers<std::uint32_t>(json.at("positions"));
  plan.want = integer<std::uint32_t>(json.at("want"));
  plan.domain = json.at("domain") == "filtered" ? DLLM_DOMAIN_FILTERED : DLLM_DOMAIN_RAW;
  plan.allow_all = json.at("allow_all");
  plan.temperature = number(json.at("temperature"));
  plan.top_p = number(json.at("top_p"));
  plan.top_k = integer<std::uint32_t>(json.at("top_k"));
  plan.guidance_scale = number(json.at("guidance_scale"));
  plan.suppress_both = integers<std::int32_t>(json.at("suppress_both"));
  plan.suppress_confidence = integers<std::int32_t>(json.at("suppress_confidence"));
  return plan;
}

TraceRow read_row(const Json& json, const TraceHeader& header) {
  TraceRow row;
  row.position = integer<std::uint32_t>(json.at("position"));
  row.sampled = token_or_none(json.at("sampled"), header);
  row.sampled_prob = number(json.at("sampled_prob"));
  row.argmax = token_or_none(json.at("argmax"), header);
  row.top1_prob = number(json.at("top1_prob"));
  row.top2_prob = number(json.at("top2_prob"));
  row.entropy = number(json.at("entropy"));
  row.log_sum_exp = number(json.at("log_sum_exp"));
  for (const Json& id : json.at("top_ids")) row.top_ids.push_back(token_or_none(id, header));
  for (const Json& value : json.at("top_probs")) row.top_probs.push_back(number(value));
  if (row.position >= header.ids.size() || row.top_ids.empty() ||
      row.top_ids.size() != row.top_probs.size()) {
    throw Fault(fmt::format("a row of position {} with {} tokens and {} probabilities",
                            row.position, row.top_ids.size(), row.top_probs.size()));
  }
  return row;
}

TraceRound read_round(const Json& line, const TraceHeader& header) {
  TraceRound round;
  round.round = integer<std::uint32_t>(line.at("round"));
  round.forward = line.at("forward");
  round.plan = read_plan(line.at("plan"));
  for (const Json& row : line.at("rows")) round.rows.push_back(read_row(row, header));
  for (const Json& edit : line.at("edits")) {
    const auto position = integer<std::uint32_t>(edit.at("position"));
    if (position >= header.ids.size()) throw Fault(fmt::format("an edit of position {}", position));
    round.edits.push_back({position, integer<std::int32_t>(edit.at("token")),
                           edit_kind(edit.at("kind")), number(edit.at("confidence"))});
  }
  round.finished = line.at("finished");
  return round;
}

TraceEnd read_end(const Json& line) {
  TraceEnd end;
  end.finish_reason = line.at("finish_reason");
  end.ids = integers<std::int32_t>(line.at("ids"));
  for (const auto& [id, piece] : line.at("pieces").items()) {
    end.pieces[std::stoi(id)] = text_as_bytes(piece.get<std::string>());
  }
  return end;
}

void read_line(const std::string& text, bool first, Trace& trace) {
  const Json line = Json::parse(text);
  if (trace.end) throw Fault("a line behind the last");
  if (first) {
    trace.header = read_header(line);
  } else if (line.contains("round")) {
    trace.rounds.push_back(read_round(line, trace.header));
  } else {
    trace.end = read_end(line);
  }
}

}  // namespace

Trace read_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw Error(ErrorCode::bad_usage, fmt::format("cannot read the trace '{}'", path), "TRACE",
                "give a file that `dllm run --record FILE` wrote");
  }
  Trace trace;
  std::string text;
  std::size_t number = 0;
  while (std::getline(in, text)) {
    ++number;
    try {
      read_line(text, number == 1, trace);
    } catch (const std::exception& error) {
      throw Error(ErrorCode::bad_file, error.what(), fmt::format("{}, line {}", path, number),
                  "record it again with `dllm run --record FILE`");
    }
  }
  const bool any = std::ranges::any_of(
      trace.rounds, [](const TraceRound& round) { return round.forward && !round.rows.empty(); });
  if (!any) {
    throw Error(ErrorCode::bad_file, "the trace holds no forward", path,
                "record it again with `dllm run --record FILE`");
  }
  return trace;
}

}  // namespace dllm::cli
