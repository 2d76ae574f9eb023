// Rules that compare plays: again, alone and in company, on threads, beside another sampler.
#include <fmt/format.h>

#include <array>
#include <barrier>
#include <exception>
#include <thread>

#include "check/rules.hpp"
#include "dllm/error.hpp"

namespace dllm::cli::checks {
namespace {

std::vector<Round> played(const Sampler& sampler, const Scene& scene) {
  Rehearsal play(sampler, scene);
  play.play();
  return play.transcript();
}

void expect_same(const char* rule, const std::string& what, const std::vector<Round>& one,
                 const std::vector<Round>& other) {
  const std::string difference = first_difference(one, other);
  if (!difference.empty()) throw Broken(rule, what + ": " + difference);
}

// Three sequences of different lengths and seeds.
std::array<Scene, 3> three_scenes() {
  std::array<Scene, 3> scenes = {plain_scene(6, 24), plain_scene(2, 9), plain_scene(11, 17)};
  for (std::size_t i = 0; i < scenes.size(); ++i) scenes[i].seed = 7 + i;
  return scenes;
}

}  // namespace

void repeatable(const Subject& subject) {
  const Scene scene = plain_scene();
  const auto first = played(*subject.make(scene.facts), scene);
  expect_same("repeatable", "played again", first, played(*subject.make(scene.facts), scene));
}

void plan_twice(const Subject& subject) {
  const Scene scene = plain_scene();
  const auto once = played(*subject.make(scene.facts), scene);
  const auto sampler = subject.make(scene.facts);
  Rehearsal play(*sampler, scene);
  while (!play.finished() && play.transcript().size() < once.size() + 1) {
    play.plan();
    const PlanCopy first(play.last_plan());
    play.plan();
    if (!(first == PlanCopy(play.last_plan()))) {
      throw Broken("plan_twice",
                   fmt::format("round {}: two plans in a row differ", play.transcript().size()));
    }
    play.apply();
  }
  expect_same("plan_twice", "with each plan asked for twice", once, play.transcript());
}

void own_buffers(const Subject& subject) {
  const auto scenes = three_scenes();
  const auto sampler = subject.make(scenes[0].facts);
  Rehearsal one(*sampler, scenes[0]);
  Rehearsal other(*sampler, scenes[1]);
  one.plan();
  const PlanCopy plan(one.last_plan());
  other.plan();
  if (!(plan == PlanCopy(one.last_plan()))) {
    throw Broken("own_buffers", "plan() on another run changed what the first returned");
  }
  one.apply();
  const auto edits = one.transcript().back();
  other.apply();
  const dllm_edits& kept = one.last_edits();
  const Round again{edits.asked, {kept.edits, kept.edits + kept.n_edits}};
  if (!first_difference({edits}, {again}).empty()) {
    throw Broken("own_buffers", "apply() on another run changed the edits the first returned");
  }
}

// As the engine goes: all plans, one forward, all edits.
void batch(const Subject& subject) {
  const auto scenes = three_scenes();
  const auto sampler = subject.make(scenes[0].facts);
  std::vector<std::vector<Round>> alone;
  for (const Scene& scene : scenes) alone.push_back(played(*subject.make(scene.facts), scene));
  std::vector<std::unique_ptr<Rehearsal>> plays;
  for (const Scene& scene : scenes) plays.push_back(std::make_unique<Rehearsal>(*sampler, scene));
  for (std::size_t round = 0;; ++round) {
    std::vector<Rehearsal*> running;
    for (std::size_t i = 0; i < plays.size(); ++i) {
      if (!plays[i]->finished() && round <= alone[i].size()) running.push_back(plays[i].get());
    }
    if (running.empty()) break;
    for (Rehearsal* play : running) play->plan();
    for (Rehearsal* play : running) play->apply();
  }
  for (std::size_t i = 0; i < plays.size(); ++i) {
    expect_same("batch", fmt::format("sequence {} of 3", i + 1), alone[i], plays[i]->transcript());
  }
}

namespace {

constexpr int kPlays = 20;

// Takes part in every round of `in_step` until it goes.
class Player {
 public:
  explicit Player(std::barrier<>& in_step) : in_step_(in_step) {}
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() { in_step_.arrive_and_drop(); }

  std::vector<Round> play(const Sampler& sampler, const Scene& scene) {
    Rehearsal play(sampler, scene);
    while (!play.finished()) {
      in_step_.arrive_and_wait();
      play.round();
    }
    return play.transcript();
  }

 private:
  std::barrier<>& in_step_;
};

}  // namespace

// The plans of a round begin at the same moment on all threads.
void threads(const Subject& subject) {
  const auto scenes = three_scenes();
  const auto sampler = subject.make(scenes[0].facts);
  std::vector<std::vector<Round>> alone;
  for (const Scene& scene : scenes) alone.push_back(played(*sampler, scene));
  std::array<std::vector<Round>, 3> together;
  std::array<std::exception_ptr, 3> failures;
  {
    std::barrier<> in_step(std::ssize(scenes));
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < scenes.size(); ++i) {
      workers.emplace_back([&, i] {
        Player player(in_step);
        try {
          for (int again = 0; again < kPlays; ++again) {
            together[i] = player.play(*sampler, scenes[i]);
          }
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
    }
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    expect_same("threads", fmt::format("thread {} of 3", i + 1), alone[i], together[i]);
  }
}

namespace {

// Values unlike the subject's own, one option at a time, as far as the sampler takes them.
std::vector<OptionValues> other_values(const Subject& subject) {
  std::vector<OptionValues> out;
  for (const OptionInfo& info : subject.record.options) {
    std::vector<std::string> texts = info.choices;
    if (info.type == OptionType::boolean) texts = {"true", "false"};
    if (info.type == OptionType::integer) texts = {"1", "2", "3"};
    if (info.type == OptionType::number) texts = {"0.5", "1"};
    for (const std::string& text : texts) {
      OptionValues values = subject.values;
      try {
        values[info.name] = parse_option(info, text, subject.record.id);
      } catch (const Error&) {
        continue;  // outside this option's range
      }
      if (values[info.name].text != subject.values.at(info.name).text) out.push_back(values);
    }
  }
  return out;
}

}  // namespace

void no_globals(const Subject& subject) {
  const Scene scene = plain_scene();
  const Scene other_scene = plain_scene(3, 8);
  const auto alone = played(*subject.make(scene.facts), scene);
  for (const OptionValues& values : other_values(subject)) {
    const auto sampler = subject.make(scene.facts);
    Rehearsal play(*sampler, scene);
    play.round();
    try {
      const auto other = subject.make(other_scene.facts, values);
      Rehearsal meanwhile(*other, other_scene);
      meanwhile.play();
    } catch (const std::exception&) {
      continue;  // it does not take these values, which other rules judge
    }
    while (!play.finished() && play.transcript().size() <= alone.size()) play.round();
    expect_same("no_globals", "beside another sampler", alone, play.transcript());
  }
}

}  // namespace dllm::cli::checks
