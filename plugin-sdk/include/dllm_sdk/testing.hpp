// Playing a sampler in a unit test, without dllm and without a model.
//
//   dllm::sdk::testing::Game game(table);
//   game.option("threshold", "0.8").canvas(2, 6);  // 2 given positions, then 6 masked ones
//   game.logits([](std::uint32_t position) { return LogitRow{{7, 1.0 + position}, {8, 0.0}}; });
//   Played played = game.play();
//   played.rounds[0].asked, played.rounds[0].edits, played.ids;
//
// `table` is what dllm_plugin_entry returned: link the sampler's source into the test and call it
// (plugin_table). A plan or edit that the engine would refuse throws std::runtime_error. What holds
// for every sampler is `dllm check-plugin`'s business; here a test says what this one does.
// Header only, C++17, standard library only. Thread rule: one thread per Game.
#ifndef DLLM_SDK_TESTING_HPP
#define DLLM_SDK_TESTING_HPP

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dllm_sdk/row_statistics.hpp"
#include "dllm_sdk/sampler_abi.h"

namespace dllm::sdk::testing {

constexpr std::uint32_t kVocabulary = 100;
constexpr std::int32_t kStopToken = 98;
constexpr std::int32_t kMaskToken = 99;
constexpr std::int32_t kPromptToken = 1;

/// A status other than DLLM_OK, with the sampler's message.
class Refused : public std::runtime_error {
 public:
  Refused(dllm_status plugin_status, const char* message)
      : std::runtime_error(message), status(plugin_status) {}
  dllm_status status;
};

inline dllm_error no_error() {
  dllm_error error{};
  error.struct_size = sizeof error;
  return error;
}
inline void check(dllm_status status, const dllm_error& error) {
  if (status != DLLM_OK) throw Refused(status, error.message);
}

/// One sequence as a host keeps it: a canvas that owns its arrays.
struct Board {
  /// Editable mask tokens are masked, other editable ones committed, the rest fixed.
  Board(std::vector<std::int32_t> from, std::vector<std::uint8_t> may_edit, std::int32_t mask)
      : ids(std::move(from)), editable(std::move(may_edit)), state(ids.size()), mask_id(mask) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      state[i] = editable[i] == 0 ? DLLM_POSITION_FIXED
                 : ids[i] == mask ? DLLM_POSITION_MASKED
                                  : DLLM_POSITION_COMMITTED;
    }
  }

  /// Borrows this object.
  dllm_canvas view() const {
    dllm_canvas canvas{};
    canvas.struct_size = sizeof canvas;
    canvas.n_positions = static_cast<std::uint32_t>(ids.size());
    canvas.ids = ids.data();
    canvas.state = state.data();
    canvas.editable = editable.data();
    canvas.step = step;
    return canvas;
  }
  std::size_t n_open() const {
    return static_cast<std::size_t>(std::count(state.begin(), state.end(), DLLM_POSITION_MASKED));
  }

  /// Throws std::runtime_error for an edit that the engine would refuse.
  void write(const dllm_edit& edit, std::uint32_t n_tokens) {
    const bool inside = edit.position < ids.size() && editable[edit.position] != 0;
    const bool masked = inside && state[edit.position] == DLLM_POSITION_MASKED;
    const bool commit = edit.kind == DLLM_EDIT_COMMIT || edit.kind == DLLM_EDIT_COMMIT_REVOCABLE;
    const bool token =
        edit.kind == DLLM_EDIT_REMASK || (edit.token >= 0 && edit.token != mask_id &&
                                          static_cast<std::uint32_t>(edit.token) < n_tokens);
    if (!inside || masked != commit || !token || edit.kind > DLLM_EDIT_COMMIT_REVOCABLE) {
      throw std::runtime_error("edit of kind " + std::to_string(edit.kind) + " at position " +
                               std::to_string(edit.position) + " with token " +
                               std::to_string(edit.token) + " is not allowed");
    }
    const bool remask = edit.kind == DLLM_EDIT_REMASK;
    ids[edit.position] = remask ? mask_id : edit.token;
    state[edit.position] = remask                                    ? DLLM_POSITION_MASKED
                           : edit.kind == DLLM_EDIT_COMMIT_REVOCABLE ? DLLM_POSITION_REVOCABLE
                                                                     : DLLM_POSITION_COMMITTED;
  }

  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> editable;
  std::vector<std::uint8_t> state;
  std::int32_t mask_id;
  std::uint32_t step = 0;
};

struct PlayedRound {
  std::vector<std::uint32_t> asked;  ///< the plan's positions; none: a round without a forward
  std::vector<dllm_edit> edits;
};

struct Played {
  std::vector<PlayedRound> rounds;
  std::vector<std::int32_t> ids;  ///< the canvas at the end
  std::uint32_t forwards = 0;
};

/// The table of the sampler linked into this test.
inline const dllm_sampler_v1& plugin_table() {
  static dllm_host_v1 host{};
  host.struct_size = sizeof host;
  host.abi_major = DLLM_PLUGIN_ABI_MAJOR;
  host.abi_minor = DLLM_PLUGIN_ABI_MINOR;
  host.log = [](void*, std::int32_t, const char*, const char*) {};
  host.get_extension = [](void*, const char*) -> const void* { return nullptr; };
  dllm_error error{};
  error.struct_size = sizeof error;
  const void* table = dllm_plugin_entry(&host, &error);
  if (table == nullptr) throw std::runtime_error(error.message);
  return *static_cast<const dllm_sampler_v1*>(table);
}

class Game {
 public:
  explicit Game(const dllm_sampler_v1& table) : table_(table) {
    facts_.struct_size = sizeof facts_;
    facts_.n_vocab = facts_.n_tokens = kVocabulary;
    facts_.mask_id = kMaskToken;
    facts_.bos_id = facts_.eot_id = facts_.pad_id = -1;
    facts_.eos_id = kStopToken;
    facts_.n_stop_ids = 1;
    facts_.stop_ids = &kStop;
    facts_.context_length = 4096;
    canvas(1, 4);
  }

  Game& option(const std::string& name, const std::string& text) {
    given_[name] = text;
    return *this;
  }
  Game& seed(std::uint64_t seed) {
    seed_ = seed;
    return *this;
  }
  /// Given positions, then masked ones.
  Game& canvas(std::uint32_t given, std::uint32_t masked) {
    std::vector<std::int32_t> ids(given, kPromptToken);
    ids.resize(std::size_t{given} + masked, kMaskToken);
    return canvas(ids);
  }
  /// Masked wherever kMaskToken stands, given elsewhere.
  Game& canvas(const std::vector<std::int32_t>& ids) {
    ids_ = ids;
    return *this;
  }
  /// The finite logits of a row; every round and position is asked anew.
  Game& logits(std::function<LogitRow(std::uint32_t position)> logits) {
    logits_ = std::move(logits);
    return *this;
  }
  dllm_model_facts& facts() { return facts_; }

  /// Plays to the end. Throws Refused where the sampler reports an error, std::runtime_error where
  /// it breaks the contract or never ends.
  Played play() {
    const auto sampler = create();
    Board board = this->board();
    Played played;
    const auto run = start(*sampler, board);
    for (bool finished = false; !finished;) {
      if (played.rounds.size() > 1024 + 64 * board.ids.size()) {
        throw std::runtime_error("no end after " + std::to_string(played.rounds.size()) +
                                 " rounds");
      }
      played.rounds.emplace_back();
      finished = play_round(*run, board, played.rounds.back());
      played.forwards += played.rounds.back().asked.empty() ? 0 : 1;
      ++board.step;
    }
    played.ids = board.ids;
    return played;
  }

 private:
  static constexpr std::int32_t kStop = kStopToken;

  Board board() const {
    std::vector<std::uint8_t> editable;
    for (const std::int32_t id : ids_) editable.push_back(id == kMaskToken ? 1 : 0);
    return Board(ids_, editable, kMaskToken);
  }

  using SamplerOwner = std::unique_ptr<dllm_sampler, void (*)(dllm_sampler*)>;
  using RunOwner = std::unique_ptr<dllm_sampler_run, void (*)(dllm_sampler_run*)>;

  SamplerOwner create() const {
    std::map<std::string, std::string> left = given_;
    std::vector<dllm_option_value> values;
    for (std::uint32_t i = 0; i < table_.n_options; ++i) {
      const dllm_option_info& info = table_.options[i];
      const auto found = given_.find(info.name);
      const char* text = found == given_.end() ? info.default_value : found->second.c_str();
      left.erase(info.name);
      values.push_back(parse(info, text));
    }
    if (!left.empty()) throw std::runtime_error("there is no option " + left.begin()->first);
    dllm_sampler* sampler = nullptr;
    dllm_error error = no_error();
    check(table_.create(values.data(), table_.n_options, &facts_, &sampler, &error), error);
    return SamplerOwner(sampler, table_.destroy);
  }

  static dllm_option_value parse(const dllm_option_info& info, const char* text) {
    dllm_option_value value{info.name, text, 0, 0};
    switch (info.type) {
      case DLLM_OPTION_INTEGER:
        value.integer = std::strtoll(text, nullptr, 10);
        value.number = static_cast<double>(value.integer);
        break;
      case DLLM_OPTION_NUMBER:
        value.number = std::strtod(text, nullptr);
        break;
      case DLLM_OPTION_BOOLEAN:
        value.integer = std::strcmp(text, "true") == 0 ? 1 : 0;
        break;
      default:
        break;
    }
    return value;
  }

  RunOwner start(const dllm_sampler& sampler, const Board& board) const {
    dllm_sampler_run* run = nullptr;
    dllm_error error = no_error();
    const dllm_canvas view = board.view();
    check(table_.start(&sampler, &view, seed_, &run, &error), error);
    return RunOwner(run, table_.end);
  }

  bool play_round(dllm_sampler_run& run, Board& board, PlayedRound& round) const {
    const dllm_canvas view = board.view();
    dllm_plan plan{};
    plan.struct_size = sizeof plan;
    plan.top_p = 1;
    plan.window_end = view.n_positions;
    dllm_error error = no_error();
    check(table_.plan(&run, &view, &plan, &error), error);
    round.asked.assign(plan.positions, plan.positions + plan.n_positions);
    for (std::size_t i = 0; i < round.asked.size(); ++i) {
      if (round.asked[i] >= board.ids.size() || (i > 0 && round.asked[i] <= round.asked[i - 1])) {
        throw std::runtime_error("position " + std::to_string(round.asked[i]) +
                                 " of the plan is outside the canvas or out of order");
      }
    }
    const dllm_raw_logits_v1* raw_logits = raw_logits_of(table_);
    if (raw_logits != nullptr && plan.n_positions > 0) {
      const RawRows rows(plan, facts_.n_vocab, logits_);
      const dllm_raw_logits logits = rows.view();
      check(raw_logits->take(&run, &view, &logits, &error), error);
    }
    const Answers answers = answer_plan(plan, facts_, seed_, board.step, logits_);
    const dllm_stats stats = answers.view();
    dllm_edits edits{};
    edits.struct_size = sizeof edits;
    check(table_.apply(&run, &view, &stats, &edits, &error), error);
    round.edits.assign(edits.edits, edits.edits + edits.n_edits);
    for (const dllm_edit& edit : round.edits) board.write(edit, kVocabulary);
    return edits.status == DLLM_RUN_FINISHED;
  }

  const dllm_sampler_v1& table_;
  dllm_model_facts facts_{};
  std::map<std::string, std::string> given_;
  std::vector<std::int32_t> ids_;
  std::uint64_t seed_ = 1;
  std::function<LogitRow(std::uint32_t)> logits_ = [](std::uint32_t position) {
    // Token 10 + position leads, the surer the further right.
    return LogitRow{
        {static_cast<std::int32_t>(10 + position % 80), 1.0 + 0.1 * position}, {5, 0.5}, {6, 0.0}};
  };
};

}  // namespace dllm::sdk::testing

#endif
