// LLaDA's and Dream's rule played over the C boundary on any options, canvas and statistics.
//
// Held to: plan() twice gives the same and passes the host's check; edits pass the host's check,
// commit what was sampled where it was asked, and never the mask; a run ends with its last step;
// the same statistics give the same edits, alone or with another run of the sampler between.
// Input: sampler, options, canvas, then what the statistics are made of.
#include <bit>
#include <vector>

#include "dllm/canvas.hpp"
#include "dllm/plan_check.hpp"
#include "dllm_sdk/row_statistics.hpp"
#include "fuzz_target.hpp"
#include "plan_copy.hpp"
#include "sampler_plugins.hpp"

namespace {

using namespace dllm::test;
using dllm::Canvas;
using dllm::ErrorCode;
using dllm::Sampler;
using dllm::SamplerRun;

constexpr std::uint32_t kMostPositions = 24;
constexpr std::uint32_t kMostRounds = 200;

using Given = std::map<std::string, std::string, std::less<>>;

struct Scene {
  const LinkedSampler* plugin = nullptr;
  Given options;
  dllm_model_facts facts{};
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> editable;
  std::uint64_t seed = 0;
  bool any_floats = false;  // NaN, infinities and negative numbers too
  std::string noise;        // what statistics are made of

  Canvas canvas() const { return Canvas(ids, editable, facts); }
};

std::string option_text(ByteReader& in, const dllm::OptionInfo& info) {
  constexpr const char* kNumbers[] = {"0",      "1",     "2",   "3",      "4",   "7",
                                      "16",     "33",    "8",   "1e-6",   "0.5", "0.25",
                                      "0.0001", "1e-30", "0.9", "1000000"};
  switch (info.type) {
    case dllm::OptionType::integer:
      return in.flag() ? std::to_string(in.below(40)) : in.pick(kNumbers);
    case dllm::OptionType::number:
      return in.pick(kNumbers);
    case dllm::OptionType::boolean:
      return in.flag() ? "true" : "false";
    case dllm::OptionType::choice:
      return info.choices[in.below(static_cast<std::uint32_t>(info.choices.size()))];
    case dllm::OptionType::text:
      break;
  }
  return in.text(8);
}

Scene read_scene(ByteReader& in) {
  Scene scene;
  scene.plugin = &linked_samplers()[in.below(2)];
  const std::uint32_t given = in.byte();
  for (std::size_t i = 0; i < scene.plugin->infos.size(); ++i) {
    const dllm::OptionInfo& info = scene.plugin->infos[i];
    if ((given >> i & 1U) != 0) scene.options[info.name] = option_text(in, info);
  }
  scene.facts = small_facts(4 + in.below(12), 0);
  scene.facts.n_tokens -= in.below(2);
  scene.facts.mask_id = static_cast<std::int32_t>(in.below(scene.facts.n_tokens));
  scene.facts.eos_id = static_cast<std::int32_t>(in.below(scene.facts.n_tokens + 1)) - 1;
  scene.facts.eot_id = static_cast<std::int32_t>(in.below(scene.facts.n_tokens + 1)) - 1;
  const std::uint32_t n = 1 + in.below(kMostPositions);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t choice = in.byte();
    scene.editable.push_back(choice % 8 != 0);
    const bool masked = choice % 8 > 1;
    scene.ids.push_back(masked ? scene.facts.mask_id
                               : static_cast<std::int32_t>(choice / 8 % scene.facts.n_tokens));
  }
  scene.seed = in.take<std::uint32_t>();
  scene.any_floats = in.below(8) == 0;
  scene.noise = in.rest();
  return scene;
}

// A number that depends on input, round, position and column alone.
std::uint32_t mixed(const Scene& scene, std::uint32_t round, std::uint32_t position,
                    std::uint32_t column) {
  std::uint32_t hash = round * 0x9E3779B1U ^ position * 0x85EBCA77U ^ column * 0xC2B2AE3DU;
  for (std::uint32_t i = 0; i < 4 && !scene.noise.empty(); ++i) {
    const std::size_t at = (round * 31U + position * 7U + column * 3U + i) % scene.noise.size();
    hash = (hash ^ static_cast<unsigned char>(scene.noise[at])) * 0x01000193U;
  }
  return hash ^ hash >> 15;
}

float number(const Scene& scene, std::uint32_t bits) {
  // Few different values: ties are frequent.
  return scene.any_floats ? std::bit_cast<float>(bits) : static_cast<float>(bits % 17) / 16.0f;
}

bool allowed(const Scene& scene, const dllm_plan& plan, std::int32_t token) {
  const auto both = std::span(plan.suppress_both, plan.n_suppress_both);
  if (std::ranges::find(both, token) != both.end()) return false;
  if ((plan.flags & DLLM_PLAN_ALLOW_ALL) != 0) return true;
  return token != scene.facts.mask_id && token < static_cast<std::int32_t>(scene.facts.n_tokens);
}

// As a host draws: any token that the plan allows.
std::int32_t token(const Scene& scene, const dllm_plan& plan, std::uint32_t bits) {
  const std::uint32_t limit = scene.facts.n_tokens;
  for (std::uint32_t i = 0; i < limit; ++i) {
    const auto id = static_cast<std::int32_t>((bits + i) % limit);
    if (allowed(scene, plan, id)) return id;
  }
  return -1;
}

dllm::sdk::Answers answers(const Scene& scene, const dllm_plan& plan, std::uint32_t round) {
  dllm::sdk::Answers out(plan);
  for (std::uint32_t row = 0; row < plan.n_positions; ++row) {
    const auto bits = [&](std::uint32_t column) {
      return mixed(scene, round, plan.positions[row], column);
    };
    out.sampled[row] = out.argmax[row] = token(scene, plan, bits(0));
    out.sampled_prob[row] = number(scene, bits(1));
    out.top1_prob[row] = number(scene, bits(2));
    out.top2_prob[row] = number(scene, bits(3));
    out.entropy[row] = number(scene, bits(4));
    out.log_sum_exp[row] = number(scene, bits(5));
  }
  return out;
}

// One sequence on its way.
class Play {
 public:
  Play(const Scene& scene, const Sampler& sampler, std::uint64_t seed)
      : scene_(scene),
        name_(sampler.id()),
        canvas_(scene.canvas()),
        run_(sampler.start(canvas_.view(), seed)) {}

  bool done() const { return done_; }
  const std::vector<dllm_edit>& edits() const { return edits_; }
  std::uint32_t rounds() const { return canvas_.step(); }
  const Canvas& canvas() const { return canvas_; }

  void round() {
    const dllm_canvas view = canvas_.view();
    const PlanCopy first(run_.plan(view));
    const dllm_plan plan = run_.plan(view);
    FUZZ_REQUIRE(first == PlanCopy(plan));
    dllm::check_plan(plan, view, scene_.facts.n_vocab, name_);
    const dllm::sdk::Answers told = answers(scene_, plan, canvas_.step());
    const dllm_stats stats = told.view();
    const dllm_edits edits = run_.apply(view, stats);
    check_edits(edits, stats);
    edits_.insert(edits_.end(), edits.edits, edits.edits + edits.n_edits);
    canvas_.apply({edits.edits, edits.n_edits}, name_);
    canvas_.advance();
    done_ = edits.status == DLLM_RUN_FINISHED;
  }

 private:
  void check_edits(const dllm_edits& edits, const dllm_stats& stats) const {
    for (const dllm_edit& edit : std::span(edits.edits, edits.n_edits)) {
      const auto* end = stats.positions + stats.n_rows;
      const auto* row = std::find(stats.positions, end, edit.position);
      FUZZ_REQUIRE(row != end);
      FUZZ_REQUIRE(edit.kind == DLLM_EDIT_COMMIT);
      FUZZ_REQUIRE(edit.token == stats.sampled[row - stats.positions]);
      FUZZ_REQUIRE(edit.token != scene_.facts.mask_id);
    }
  }

  const Scene& scene_;
  std::string name_;
  Canvas canvas_;
  SamplerRun run_;
  std::vector<dllm_edit> edits_;
  bool done_ = false;
};

bool same_edits(const std::vector<dllm_edit>& a, const std::vector<dllm_edit>& b) {
  return std::ranges::equal(a, b, [](const dllm_edit& x, const dllm_edit& y) {
    return x.position == y.position && x.token == y.token && x.kind == y.kind &&
           std::bit_cast<std::uint32_t>(x.confidence) == std::bit_cast<std::uint32_t>(y.confidence);
  });
}

// Steps the rule says it takes: the option, or one for each masked position.
std::uint32_t promised_rounds(const Scene& scene) {
  const auto given = scene.options.find("steps");
  const std::uint32_t steps = given == scene.options.end() ? 0 : std::stoul(given->second);
  return std::max(steps != 0 ? steps : scene.canvas().n_masked(), 1U);
}

// Only numbers that no order can rank may be refused, by name.
bool play_round(const Scene& scene, Play& play) {
  const auto error = refusal_of([&] { play.round(); });
  if (!error) return true;
  FUZZ_REQUIRE(scene.any_floats && error->code() == ErrorCode::bad_plugin);
  FUZZ_REQUIRE(error->fact().find("not a number") != std::string::npos);
  return false;
}

void play_all(const Scene& scene, const Sampler& sampler) {
  Play with_company(scene, sampler, scene.seed);
  Play company(scene, sampler, scene.seed + 1);
  while (!with_company.done() && with_company.rounds() < kMostRounds) {
    if (!play_round(scene, with_company)) return;
    if (!company.done() && !play_round(scene, company)) return;
  }
  const std::uint32_t promised = promised_rounds(scene);
  FUZZ_REQUIRE(with_company.done() || promised > kMostRounds);
  FUZZ_REQUIRE(with_company.rounds() <= promised);
  const auto exact = scene.options.find("exact");
  if (with_company.done() && (exact == scene.options.end() || exact->second == "false")) {
    FUZZ_REQUIRE(with_company.canvas().n_masked() == 0);
  }
  Play alone(scene, sampler, scene.seed);
  while (!alone.done() && alone.rounds() < kMostRounds) alone.round();
  FUZZ_REQUIRE(same_edits(alone.edits(), with_company.edits()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader in(data, size);
  const Scene scene = read_scene(in);
  const auto error = refusal_of([&] {
    const auto sampler = scene.plugin->make(scene.options, scene.facts);
    sampler->start(scene.canvas().view(), scene.seed);
    play_all(scene, *sampler);
  });
  // What does not fit together is refused before the first plan.
  FUZZ_REQUIRE(!error || error->code() == ErrorCode::bad_usage);
  return 0;
}
