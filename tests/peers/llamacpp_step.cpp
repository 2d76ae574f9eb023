// Times whole forwards of a diffusion model in llama.cpp: every position of the canvas attends to
// every other, and every row's logits are computed. One JSON object per line on stdout: first the
// load, then one for each length. peers.py compiles it against an owner's llama.cpp; the project's
// build does not.
//
//   llamacpp_step MODEL.gguf THREADS LENGTH,LENGTH,... REPEATS
//
// A length of 8x160 is eight canvases of 160 in one batch.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-cpu.h"
#include "llama.h"

namespace {

double now_ms() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Canvases {
  int count;
  int length;
  int tokens() const { return count * length; }
};

std::vector<Canvases> canvases_of(const char* text) {
  std::vector<Canvases> result;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    const std::size_t times = item.find('x');
    if (times == std::string::npos) {
      result.push_back({1, std::atoi(item.c_str())});
    } else {
      result.push_back({std::atoi(item.c_str()), std::atoi(item.c_str() + times + 1)});
    }
  }
  return result;
}

// Milliseconds of one forward over made-up tokens; dies where llama.cpp reports an error.
double step_ms(llama_context* context, const Canvases& canvases, int n_vocab) {
  const int n = canvases.tokens();
  llama_batch batch = llama_batch_init(n, 0, 1);
  batch.n_tokens = n;
  for (int i = 0; i < n; ++i) {
    batch.token[i] = (i * 7919 + 13) % std::min(n_vocab, 100000);
    batch.pos[i] = i % canvases.length;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = i / canvases.length;
    batch.logits[i] = 1;
  }
  const double start = now_ms();
  const int status = llama_decode(context, batch);
  const float last = status == 0 ? llama_get_logits_ith(context, n - 1)[0] : NAN;
  const double elapsed = now_ms() - start;
  llama_batch_free(batch);
  if (!std::isfinite(last)) {
    std::fprintf(stderr, "llama_decode gave status %d and a logit of %f\n", status, last);
    std::exit(1);
  }
  return elapsed;
}

const char* units() {
  if (ggml_cpu_has_amx_int8() != 0) return "amx";
  if (ggml_cpu_has_avx512_vnni() != 0) return "avx512vnni";
  if (ggml_cpu_has_avx512() != 0) return "avx512";
  return ggml_cpu_has_avx_vnni() != 0 ? "avxvnni" : "avx2";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int threads = std::atoi(argv[2]);
  const std::vector<Canvases> lengths = canvases_of(argv[3]);
  const int repeats = std::atoi(argv[4]);
  if (threads < 1 || lengths.empty() || repeats < 1) return 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  const double start = now_ms();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  std::printf("{\"runtime\": \"llama.cpp\", \"isa\": \"%s\", \"threads\": %d, \"load_ms\": %.0f}\n",
              units(), threads, now_ms() - start);
  llama_context_params params = llama_context_default_params();
  int most_tokens = 32;
  int most_canvases = 1;
  for (const Canvases& each : lengths) {
    most_tokens = std::max(most_tokens, each.tokens());
    most_canvases = std::max(most_canvases, each.count);
  }
  params.n_ctx = params.n_batch = params.n_ubatch = static_cast<unsigned>(most_tokens);
  params.n_seq_max = static_cast<unsigned>(most_canvases);
  params.n_threads = params.n_threads_batch = threads;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  llama_set_causal_attn(context, false);
  const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  step_ms(context, {1, 32}, n_vocab);  // touches every weight
  for (const Canvases& each : lengths) {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) times.push_back(step_ms(context, each, n_vocab));
    std::sort(times.begin(), times.end());
    const double median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
    std::printf(
        "{\"sequences\": %d, \"length\": %d, \"median_ms\": %.1f, \"min_ms\": %.1f, \"max_ms\": "
        "%.1f, "
        "\"peak_mib\": %.0f}\n",
        each.count, each.length, median, times.front(), times.back(), peak_mib());
    std::fflush(stdout);
  }
  llama_free(context);
  llama_model_free(model);
  return 0;
}
