// Rules about answers no healthy model gives, and answers in another form.
#include <algorithm>
#include <limits>

#include "check/rules.hpp"
#include "dllm/error.hpp"

namespace dllm::cli::checks {
namespace {

// One answer of the second forward is damaged. The engine would stop the sequence before the
// sampler sees such a row; a sampler that sees it must not turn it into a token.
// `logit` takes the place of every logit of that row.
void play_damaged(const Subject& subject, float logit,
                  const std::function<void(sdk::Answers&)>& damage) {
  const Scene scene = plain_scene();
  const auto sampler = subject.make(scene.facts);
  Rehearsal play(*sampler, scene);
  play.damage = [&](sdk::Answers& answers) {
    if (play.forwards() == 1 && !answers.positions.empty()) damage(answers);
  };
  play.damage_logits = [&](sdk::RawRows& rows) {
    if (play.forwards() == 1) std::fill_n(rows.values.begin(), rows.n_vocab, logit);
  };
  try {
    play.play();
  } catch (const Broken& broken) {
    const std::string how = broken.what();
    const bool named = broken.rule == "calls" && how.find("and no message") == std::string::npos &&
                       how.find("let an exception") == std::string::npos;
    if (!named) throw;  // an error with a message is how a sampler should end here
  }
}

}  // namespace

void no_candidate(const Subject& subject) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  play_damaged(subject, kNone, [](sdk::Answers& answers) {
    answers.set(0, sdk::RowStatistics());
    for (std::uint32_t j = 0; j < answers.prob_of_stride; ++j) answers.prob_of[j] = 0;
    for (std::uint32_t j = 0; j < answers.top_stride; ++j) {
      answers.top_ids[j] = -1;
      answers.top_probs[j] = 0;
    }
  });
}

void not_a_number(const Subject& subject) {
  play_damaged(subject, std::numeric_limits<float>::quiet_NaN(), [](sdk::Answers& answers) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    answers.sampled_prob[0] = answers.top1_prob[0] = answers.top2_prob[0] = nan;
    answers.entropy[0] = answers.log_sum_exp[0] = nan;
    for (std::uint32_t j = 0; j < answers.prob_of_stride; ++j) answers.prob_of[j] = nan;
    for (std::uint32_t j = 0; j < answers.top_stride; ++j) answers.top_probs[j] = nan;
  });
}

void wide_answers(const Subject& subject) {
  Scene scene = plain_scene();
  const auto sampler = subject.make(scene.facts);
  Rehearsal narrow(*sampler, scene);
  narrow.play();
  scene.extra_columns = 3;
  Rehearsal wide(*sampler, scene);
  wide.play();
  const std::string difference = first_difference(narrow.transcript(), wide.transcript());
  if (!difference.empty()) throw Broken("wide_answers", "with 3 columns more: " + difference);
}

}  // namespace dllm::cli::checks
