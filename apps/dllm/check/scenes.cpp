// Rules about what is played: canvases and vocabularies of every kind, and others who change the
// canvas.
#include <fmt/format.h>
#include <sys/resource.h>

#include "check/rules.hpp"
#include "dllm/error.hpp"

namespace dllm::cli::checks {
namespace {

void expect_filled(const char* rule, const Rehearsal& play, std::uint32_t n_masked) {
  if (n_masked == 0) return;
  throw Broken(rule, fmt::format("{} positions are masked at the end of {} rounds", n_masked,
                                 play.transcript().size()));
}

void play_and_fill(const Subject& subject, const char* rule, const Scene& scene) {
  const auto sampler = subject.make(scene.facts);
  Rehearsal play(*sampler, scene);
  play.play();
  expect_filled(rule, play, play.canvas().n_masked());
}

std::uint32_t first_with(const Canvas& canvas, std::uint8_t state) {
  for (std::uint32_t i = 0; i < canvas.size(); ++i) {
    if (canvas.state()[i] == state) return i;
  }
  return canvas.size();
}

constexpr int kChanges = 4;
constexpr std::int32_t kForeignToken = 77;

// Plays to the end; after each of the first rounds `change` may change the canvas.
void play_among_others(const Subject& subject, const char* rule, void (*change)(Canvas&)) {
  const Scene scene = plain_scene();
  const auto sampler = subject.make(scene.facts);
  Rehearsal play(*sampler, scene);
  for (int i = 0; i < kChanges && !play.finished(); ++i) {
    play.round();
    // The run must have something left to do: it was told of no end.
    if (!play.finished() && play.canvas().n_masked() > 1) change(play.canvas());
  }
  play.play();
  expect_filled(rule, play, play.canvas().n_masked());
}

}  // namespace

void holes(const Subject& subject) { play_and_fill(subject, "holes", scattered_scene()); }

void small_canvas(const Subject& subject) {
  for (std::uint32_t masked = 1; masked <= 5; ++masked) {
    play_and_fill(subject, "small_canvas", plain_scene(masked % 2, masked));
  }
}

void long_canvas(const Subject& subject) {
  play_and_fill(subject, "long_canvas", plain_scene(24, 500));
}

void nothing_to_do(const Subject& subject) {
  const Scene scene = plain_scene(12, 0);
  const auto sampler = subject.make(scene.facts);
  Rehearsal play(*sampler, scene);
  play.round();
  const Round& round = play.transcript().back();
  if (round.asked.empty() && round.edits.empty() && play.finished()) return;
  throw Broken("nothing_to_do",
               fmt::format("it asked for {} positions, made {} edits and {}", round.asked.size(),
                           round.edits.size(), play.finished() ? "ended" : "did not end"));
}

void filled_by_others(const Subject& subject) {
  play_among_others(subject, "filled_by_others", [](Canvas& canvas) {
    canvas.overwrite(first_with(canvas, DLLM_POSITION_MASKED), kForeignToken);
  });
}

void remasked_by_others(const Subject& subject) {
  play_among_others(subject, "remasked_by_others", [](Canvas& canvas) {
    const std::uint32_t committed = first_with(canvas, DLLM_POSITION_COMMITTED);
    if (committed < canvas.size()) canvas.overwrite(committed, plain_scene().facts.mask_id);
  });
}

void huge_vocabulary(const Subject& subject) {
  if (subject.make(plain_scene().facts)->takes_logits()) {
    throw NotAsked("it takes whole logits, which grow with the vocabulary");
  }
  constexpr std::uint32_t kVocab = 1u << 28;
  constexpr long kMaxGrowthKib = 128 * 1024;  // half a byte a token
  Scene scene = plain_scene();
  scene.facts.n_vocab = kVocab;
  scene.facts.n_tokens = kVocab - 5;
  scene.facts.mask_id = static_cast<std::int32_t>(kVocab) - 10;
  for (std::int32_t& id : scene.ids) {
    if (id == plain_scene().facts.mask_id) id = scene.facts.mask_id;
  }
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  play_and_fill(subject, "huge_vocabulary", scene);
  ::getrusage(RUSAGE_SELF, &after);
  const long grown = after.ru_maxrss - before.ru_maxrss;
  if (grown <= kMaxGrowthKib) return;
  throw Broken("huge_vocabulary",
               fmt::format("{} MiB more for a vocabulary of {} ids", grown / 1024, kVocab));
}

void no_special_ids(const Subject& subject) {
  Scene scene = plain_scene();
  for (std::int32_t& id : scene.ids) {
    if (id == scene.facts.mask_id) id = 0;
  }
  scene.facts.mask_id = 0;
  scene.facts.bos_id = scene.facts.eos_id = scene.facts.eot_id = scene.facts.pad_id = -1;
  scene.facts.n_stop_ids = 0;
  scene.facts.stop_ids = nullptr;
  scene.facts.trained_block_length = 0;
  play_and_fill(subject, "no_special_ids", scene);
}

}  // namespace dllm::cli::checks
