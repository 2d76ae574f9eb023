#include "check/rules.hpp"

#include <array>

namespace dllm::cli {
namespace {

// What compares two plays needs plays that repeat.
constexpr std::string_view kRepeats = "repeatable";

constexpr std::array kRules = std::to_array<Rule>({
    {"calls", "create, start, plan and apply return, without an error", checks::calls, true},
    {"plans", "plans ask for ascending positions of the canvas and known statistics", checks::plans,
     true},
    {"edits", "edits change positions that may be changed, to tokens of the vocabulary",
     checks::edits, true},
    {"reads_only", "canvas and statistics are read, never written", checks::reads_only, true},
    {"progress", "a run ends within the engine's budget of rounds", checks::progress, true},
    {"fills", "no masked position is left at the end", checks::fills, true},
    {"options", "every option takes its limits and choices, or refuses them with a reason",
     checks::options},
    {"repeatable", "the same seed gives the same run", checks::repeatable},
    {"plan_twice", "a second plan is the same as the first and changes nothing", checks::plan_twice,
     false, kRepeats},
    {"own_buffers", "what plan and apply return outlives calls on other runs", checks::own_buffers},
    {"batch", "a sequence runs the same alone and among others", checks::batch, false,
     "repeatable own_buffers"},
    {"threads", "runs of one sampler on several threads are the same", checks::threads, false,
     "repeatable own_buffers batch"},
    {"no_globals", "another sampler with other options changes nothing", checks::no_globals, false,
     kRepeats},
    {"holes", "masks may lie anywhere; given mask tokens are left alone", checks::holes},
    {"small_canvas", "one to five masked positions are filled", checks::small_canvas},
    {"long_canvas", "five hundred masked positions are filled", checks::long_canvas},
    {"nothing_to_do", "without masked positions a run asks for nothing and ends",
     checks::nothing_to_do},
    {"filled_by_others", "positions may be filled between rounds", checks::filled_by_others},
    {"remasked_by_others", "filled positions may be masked between rounds",
     checks::remasked_by_others},
    {"step_budget", "with an option steps, there are no more forwards than that",
     checks::step_budget},
    {"huge_vocabulary", "memory does not grow with the vocabulary", checks::huge_vocabulary},
    {"no_special_ids", "a vocabulary without special ids will do", checks::no_special_ids},
    {"no_candidate", "a row without a token (all logits -inf) ends in an error or is left alone",
     checks::no_candidate},
    {"not_a_number", "statistics that are NaN end in an error or are left alone",
     checks::not_a_number},
    {"wide_answers", "tables of answers may have more columns than asked for", checks::wide_answers,
     false, kRepeats},
    {"newer_host", "structures of a newer dllm are longer, and their ends stay untouched",
     checks::newer_host},
    {"older_host", "a host without the extensions it uses gets an error, or a run without them",
     checks::older_host},
    {"frees_all", "what a run and a sampler took is given back, whenever they end",
     checks::frees_all},
    {"shared_process",
     "locale, environment, folder, signals, threads and standard output are left as they were",
     checks::shared_process},
});

}  // namespace

std::unique_ptr<Sampler> Subject::make(const dllm_model_facts& facts,
                                       const OptionValues& with) const {
  return std::make_unique<Sampler>(record.library, record.id, record.sampler, record.options, with,
                                   facts);
}

std::span<const Rule> sampler_rules() { return kRules; }

}  // namespace dllm::cli
