// A sampler that breaks one rule of the boundary: the one DLLM_TEST_FAULT names when it is loaded.
// Whole, it commits `per_step` positions a round, from the left; it wants the two likeliest tokens
// and commits the first. Over the C table, as the wrapper of the SDK would catch some of it.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dllm_sdk/raw_logits_abi.h"
#include "dllm_sdk/sampler_abi.h"

namespace {

const char* fault_name = "";

bool fault(const char* name) { return std::strcmp(fault_name, name) == 0; }

dllm_status fail(dllm_error* error, const char* message) {
  std::snprintf(error->message, sizeof error->message, "%s", message);
  return DLLM_ERROR;
}

std::uint32_t global_per_step = 1;     // fault no_globals
std::atomic<int> samplers_made{0};     // fault repeatable
std::uint32_t static_positions[4096];  // fault own_buffers

// Fault threads: waits until a second thread is in here too; false where none comes.
bool meets_another() {
  static std::mutex door;
  static std::condition_variable came;
  static int inside = 0;
  std::unique_lock lock(door);
  ++inside;
  came.notify_all();
  return came.wait_for(lock, std::chrono::seconds(10), [] { return inside >= 2; });
}

// Writes where only reading is allowed.
template <typename T>
void overwrite(const T* where, T value) {
  const_cast<T*>(where)[0] = value;
}

}  // namespace

struct dllm_sampler {
  std::uint32_t per_step;
  int number;
  std::int32_t mask_id;
  std::thread::id maker;
  std::atomic<int> rounds;
};

struct dllm_sampler_run {
  const dllm_sampler* sampler;
  std::vector<std::uint32_t> positions;
  std::vector<dllm_edit> edits;
  std::uint32_t expected_open = 0;
  int plans = 0;  // since the last apply
  bool took_logits = false;
  void* leaked = nullptr;
};

namespace {

dllm_status create(const dllm_option_value* values, std::uint32_t, const dllm_model_facts* facts,
                   dllm_sampler** out, dllm_error* error) {
  const auto per_step = static_cast<std::uint32_t>(values[0].integer);
  if (fault("options") && per_step == 50) return fail(error, "fifty is beyond me");
  if (fault("options_silent") && per_step == 50) return DLLM_BAD_OPTION;
  if (fault("options_says_why") && per_step == 50) {
    fail(error, "fifty is beyond me");
    return DLLM_BAD_OPTION;
  }
  if (fault("no_special_ids") && facts->eos_id < 0) return fail(error, "where is the end token?");
  if (fault("huge_vocabulary")) {
    auto* weights = static_cast<unsigned char*>(std::malloc(facts->n_vocab));
    for (std::size_t i = 0; i < facts->n_vocab; i += 512) weights[i] = 1;
    std::free(weights);
  }
  global_per_step = per_step;
  *out =
      new dllm_sampler{per_step, samplers_made++, facts->mask_id, std::this_thread::get_id(), {}};
  return DLLM_OK;
}

void destroy(dllm_sampler* sampler) { delete sampler; }

bool is_open(const dllm_canvas& canvas, std::uint32_t i, const dllm_sampler& sampler) {
  if (fault("holes")) return canvas.ids[i] == sampler.mask_id;
  return canvas.state[i] == DLLM_POSITION_MASKED && canvas.editable[i] != 0;
}

std::uint32_t count_open(const dllm_canvas& canvas, const dllm_sampler& sampler) {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < canvas.n_positions; ++i) n += is_open(canvas, i, sampler) ? 1 : 0;
  return n;
}

dllm_status start(const dllm_sampler* sampler, const dllm_canvas* canvas, std::uint64_t,
                  dllm_sampler_run** out, dllm_error* error) {
  const std::uint32_t open = count_open(*canvas, *sampler);
  if (fault("small_canvas") && open == 2) return fail(error, "two is a crowd");
  if (fault("long_canvas") && canvas->n_positions > 256) return fail(error, "too long for me");
  if (fault("newer_host") && canvas->struct_size != sizeof *canvas) {
    return fail(error, "what canvas is this?");
  }
  auto* run = new dllm_sampler_run{};
  run->sampler = sampler;
  run->expected_open = open;
  if (fault("frees_all")) run->leaked = std::malloc(40);
  *out = run;
  return DLLM_OK;
}

void end(dllm_sampler_run* run) { delete run; }

std::uint32_t per_step_of(const dllm_sampler_run& run) {
  if (fault("no_globals")) return global_per_step;
  if (fault("repeatable")) return 1 + static_cast<std::uint32_t>(run.sampler->number % 2);
  if (fault("batch")) return 1 + static_cast<std::uint32_t>(run.sampler->rounds.load() % 2);
  return run.sampler->per_step;
}

dllm_status plan_faults(const dllm_canvas& canvas, dllm_sampler_run& run, dllm_error* error) {
  const std::uint32_t open = count_open(canvas, *run.sampler);
  if (fault("calls")) return fail(error, "I do not feel like it");
  if (fault("calls_throws")) throw std::runtime_error("over the wall");
  if (fault("calls_crashes")) std::abort();
  if (fault("calls_hangs")) ::sleep(1000);
  if (fault("calls_exits")) std::exit(0);
  if (fault("calls_quick_exits")) std::quick_exit(0);
  if (fault("filled_by_others") && open < run.expected_open) return fail(error, "who filled it?");
  if (fault("remasked_by_others") && open > run.expected_open) return fail(error, "who masked it?");
  if (fault("reads_only_ids")) overwrite(canvas.ids, 5);
  if (fault("reads_only_state")) overwrite<std::uint8_t>(canvas.state, DLLM_POSITION_COMMITTED);
  if (fault("reads_only_editable")) overwrite<std::uint8_t>(canvas.editable, 1);
  if (fault("reads_only_blocks") && canvas.n_block_starts > 0) overwrite(canvas.block_starts, 3u);
  return DLLM_OK;
}

// What the whole process shares.
void change_the_process() {
  if (fault("shared_process_locale")) std::setlocale(LC_ALL, "C.UTF-8");
  if (fault("shared_process_folder") && ::chdir("/") != 0) std::abort();
  if (fault("shared_process_handler")) ::signal(SIGINT, SIG_IGN);
  if (fault("shared_process_signals")) {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  }
  if (static bool left = false; fault("shared_process_thread") && !left) {
    left = true;
    std::thread([] { ::sleep(1000); }).detach();
  }
  if (fault("shared_process_prints")) std::puts("I was here");
  if (fault("floating_point")) std::fesetround(FE_TOWARDZERO);
}

void write_into_statistics(const dllm_stats& stats) {
  if (stats.n_rows == 0) return;
  if (fault("reads_only_number")) overwrite(stats.entropy, 0.25f);
  if (fault("reads_only_list")) overwrite(stats.top_probs, 0.25f);
  if (fault("reads_only_tokens")) overwrite(stats.top_ids, 5);
}

dllm_status make_plan(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                      dllm_error* error) {
  if (const dllm_status status = plan_faults(*canvas, *run, error); status != DLLM_OK)
    return status;
  const bool elsewhere = run->sampler->maker != std::this_thread::get_id();
  if (fault("threads") && elsewhere && meets_another()) return fail(error, "one at a time");
  run->positions.clear();
  for (std::uint32_t i = 0; i < canvas->n_positions; ++i) {
    if (is_open(*canvas, i, *run->sampler)) run->positions.push_back(i);
  }
  if (fault("plan_twice") && run->plans++ > 0 && !run->positions.empty()) {
    run->positions.pop_back();
  }
  if (fault("plans")) run->positions.push_back(canvas->n_positions);
  out->positions = run->positions.data();
  if (fault("own_buffers")) {
    std::copy(run->positions.begin(), run->positions.end(), static_positions);
    out->positions = static_positions;
  }
  out->n_positions = static_cast<std::uint32_t>(run->positions.size());
  out->want = DLLM_STAT_TOP_LIST | DLLM_STAT_ENTROPY;
  out->n_top_list = 2;
  if (fault("nan_plan")) out->temperature = std::nanf("");
  if (fault("bad_status")) return 7;
  if (fault("newer_host_writes")) std::memset(out + 1, 0, out->struct_size - sizeof *out);
  return DLLM_OK;
}

dllm_status apply(dllm_sampler_run* run, const dllm_canvas* canvas, const dllm_stats* stats,
                  dllm_edits* out, dllm_error* error) {
  write_into_statistics(*stats);
  change_the_process();
  if (fault("older_host") && stats->n_rows > 0 && !run->took_logits) std::abort();
  run->took_logits = false;
  run->edits.clear();
  run->plans = 0;
  const std::uint32_t stride = fault("wide_answers") ? 2 : stats->n_top_list;
  const std::uint32_t count = std::min(per_step_of(*run), stats->n_rows);
  for (std::uint32_t i = 0; i < count; ++i) {
    // Only a row behind the first shows a wrong stride.
    const std::uint32_t row = fault("wide_answers") ? stats->n_rows - 1 - i : i;
    std::int32_t token = stats->top_ids[row * stride];
    const float confidence = -stats->entropy[row];
    if (token < 0 && !fault("no_candidate")) return fail(error, "no candidate");
    if (std::isnan(confidence)) {
      if (!fault("not_a_number")) return fail(error, "not a number");
      token = 1 << 20;
    }
    if (fault("edits_mask")) token = run->sampler->mask_id;
    if (fault("edits_vocabulary")) token = 1000;
    const std::uint32_t position = fault("edits_fixed") ? 0 : stats->positions[row];
    const float shown = fault("nan_confidence") ? std::nanf("") : confidence;
    run->edits.push_back({position, token, DLLM_EDIT_COMMIT, shown});
  }
  if (fault("progress")) run->edits.clear();
  const bool early = fault("fills") && canvas->step == 2;
  out->edits = run->edits.data();
  out->n_edits = static_cast<std::uint32_t>(run->edits.size());
  const bool filled = run->edits.size() == stats->n_rows;
  out->status = (filled && !fault("progress")) || early ? DLLM_RUN_FINISHED : DLLM_RUN_RUNNING;
  if (fault("unknown_run_status")) out->status = 9;
  if (fault("null_edits")) out->edits = nullptr;
  if (fault("many_edits")) out->n_edits = 0xFFFFFFFF;
  if (fault("nothing_to_do") && stats->n_rows == 0) out->status = DLLM_RUN_RUNNING;
  run->expected_open = stats->n_rows - out->n_edits;
  ++const_cast<dllm_sampler*>(run->sampler)->rounds;
  return DLLM_OK;
}

dllm_status take(dllm_sampler_run* run, const dllm_canvas*, const dllm_raw_logits* logits,
                 dllm_error*) {
  run->took_logits = true;
  if (fault("reads_only_logits")) overwrite(logits->values, 0.25f);
  return DLLM_OK;
}

const dllm_raw_logits_v1 raw_logits = {sizeof(dllm_raw_logits_v1), 0, take};

const void* get_extension(const char* name) {
  const bool takes = fault("older_host") || fault("reads_only_logits");
  return takes && std::strcmp(name, DLLM_EXTENSION_RAW_LOGITS) == 0 ? &raw_logits : nullptr;
}

const dllm_option_info options[] = {
    {sizeof(dllm_option_info), DLLM_OPTION_INTEGER, "per_step", "1", "positions a step", 1, 50, 0,
     0, nullptr},
    {sizeof(dllm_option_info), DLLM_OPTION_INTEGER, "steps", "0", "has no effect", 0, 1e6, 0, 0,
     nullptr},
};

}  // namespace

DLLM_PLUGIN_NOTE(DLLM_PLUGIN_KIND_SAMPLER, "broken", "1.0.0", "", "breaks the rule it is told to");

extern "C" DLLM_PLUGIN_EXPORT const void* dllm_plugin_entry(const dllm_host_v1*,
                                                            dllm_error* error) {
  if (const char* name = std::getenv("DLLM_TEST_FAULT")) fault_name = name;
  if (fault("loads")) {
    fail(error, "not today");
    return nullptr;
  }
  if (fault("loads_crashes")) std::abort();
  if (fault("shared_process_loading")) ::umask(0777);
  // Only one of its faults needs an option steps, which it ignores.
  static const dllm_sampler_v1 table = {sizeof(dllm_sampler_v1),
                                        fault("step_budget") ? 2u : 1u,
                                        options,
                                        create,
                                        destroy,
                                        start,
                                        end,
                                        make_plan,
                                        apply,
                                        get_extension};
  return &table;
}
