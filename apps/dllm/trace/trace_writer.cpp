#include "trace/trace_writer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <span>

#include "output/json.hpp"

namespace dllm::cli {
namespace {

// The shortest digits that read back as the same float; JSON has no infinity and no NaN.
Json number(float value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

Json numbers(std::span<const float> values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(number(value));
  return list;
}

// Bytes, each as the code point of the same number: a piece need not be UTF-8.
std::string bytes_as_text(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xC0 | (byte >> 6));
      text += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return text;
}

Json facts_json(const dllm_model_facts& facts) {
  return {{"n_vocab", facts.n_vocab},
          {"n_tokens", facts.n_tokens},
          {"mask_id", facts.mask_id},
          {"bos_id", facts.bos_id},
          {"eos_id", facts.eos_id},
          {"eot_id", facts.eot_id},
          {"pad_id", facts.pad_id},
          {"context_length", facts.context_length},
          {"trained_block_length", facts.trained_block_length},
          {"stop_ids", std::vector(facts.stop_ids, facts.stop_ids + facts.n_stop_ids)}};
}

Json plan_json(const TracePlan& plan) {
  return {{"positions", plan.positions},
          {"want", plan.want},
          {"domain", plan.domain == DLLM_DOMAIN_FILTERED ? "filtered" : "raw"},
          {"allow_all", plan.allow_all},
          {"temperature", number(plan.temperature)},
          {"top_p", number(plan.top_p)},
          {"top_k", plan.top_k},
          {"guidance_scale", number(plan.guidance_scale)},
          {"suppress_both", plan.suppress_both},
          {"suppress_confidence", plan.suppress_confidence}};
}

Json row_json(const dllm_stats& all, std::uint32_t row) {
  const std::size_t first = std::size_t{row} * all.n_top_list;
  return {{"position", all.positions[row]},
          {"sampled", all.sampled[row]},
          {"sampled_prob", number(all.sampled_prob[row])},
          {"argmax", all.argmax[row]},
          {"top1_prob", number(all.top1_prob[row])},
          {"top2_prob", number(all.top2_prob[row])},
          {"entropy", number(all.entropy[row])},
          {"log_sum_exp", number(all.log_sum_exp[row])},
          {"top_ids", std::vector(all.top_ids + first, all.top_ids + first + all.n_top_list)},
          {"top_probs", numbers({all.top_probs + first, all.n_top_list})}};
}

Json edits_json(std::span<const dllm_edit> edits) {
  Json list = Json::array();
  for (const dllm_edit& edit : edits) {
    list.push_back({{"kind", edit_kind_name(edit.kind)},
                    {"position", edit.position},
                    {"token", edit.token},
                    {"confidence", number(edit.confidence)}});
  }
  return list;
}

}  // namespace

TraceWriter::TraceWriter(const std::string& path, const TraceHeader& header,
                         const Tokenizer& tokenizer)
    : file_(path, "--record"), tokenizer_(tokenizer) {
  const Json line{{"trace", kTraceVersion},
                  {"model", header.model},
                  {"sampler", header.sampler},
                  {"options", header.options},
                  {"seed", header.seed},
                  {"ignore_eos", header.ignore_eos},
                  {"facts", facts_json(header.facts)},
                  {"ids", header.ids},
                  {"editable", header.editable}};
  file_.stream() << dump_line(line) << '\n';
  seen_.insert(header.ids.begin(), header.ids.end());
}

void TraceWriter::add(const SequenceRound& round) {
  Json rows = Json::array();
  for (std::uint32_t row = 0; row < round.all.n_rows; ++row) {
    if (round.canvas.editable[round.all.positions[row]] == 0) continue;
    rows.push_back(row_json(round.all, row));
    for (const auto& id : rows.back()["top_ids"]) seen_.insert(id.get<std::int32_t>());
    seen_.insert(round.all.sampled[row]);
  }
  const Json line{{"round", round.canvas.step},
                  {"forward", round.answers.n_rows > 0},
                  {"plan", plan_json(trace_plan(round.plan))},
                  {"rows", std::move(rows)},
                  {"edits", edits_json(round.edits)},
                  {"finished", round.finished}};
  file_.stream() << dump_line(line) << '\n';
}

void TraceWriter::finish(const std::vector<std::int32_t>& canvas,
                         const std::string& finish_reason) {
  Json pieces = Json::object();
  for (const std::int32_t id : seen_) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < tokenizer_.n_tokens()) {
      pieces[std::to_string(id)] = bytes_as_text(tokenizer_.decode(std::span(&id, 1)));
    }
  }
  const Json line{{"finish_reason", finish_reason}, {"ids", canvas}, {"pieces", std::move(pieces)}};
  file_.stream() << dump_line(line) << '\n';
  file_.keep();
}

void TraceWriter::keep_rounds() noexcept {
  try {
    file_.keep();
  } catch (const std::exception&) {
    // CompleteFile takes away what it could not keep.
  }
}

}  // namespace dllm::cli
