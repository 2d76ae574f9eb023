// Times of whole denoising steps on a GPU: forward, head on every row, greedy statistics. As JSON.
//
//   gpu_steps MODEL.gguf PLUGIN_FOLDER [BACKEND [OPTION=VALUE ...]] > steps.json
//
// A step is timed by the host's clock around Model::forward_stats(), which returns when the
// statistics are there; median of 15 after 3 warm-ups. Stage times come from a run of their own,
// because a profiled step runs op by op instead of recorded and each span adds about 3 us.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "dllm/model.hpp"
#include "dllm/options.hpp"
#include "dllm/plugin.hpp"

namespace {

using namespace dllm;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 3;
constexpr int kRepeats = 15;
constexpr int kProfiled = 5;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class StageSums final : public ProfileSink {
 public:
  void span(const StageSpan& span) override {
    if (span.is_part) return;
    ms_[span.name] += static_cast<double>(span.end_ns - span.begin_ns) * 1e-6;
    ++calls_[span.name];
  }
  void move(Stage, Stage, std::int64_t) override {}
  nlohmann::json per_step(int n_steps) const {
    nlohmann::json out;
    for (const auto& [name, ms] : ms_)
      out[name] = {{"ms", ms / n_steps}, {"calls", calls_.at(name) / n_steps}};
    return out;
  }

 private:
  std::map<std::string, double> ms_;
  std::map<std::string, int> calls_;
};

// Canvases of one length side by side, every row asked for.
struct Batch {
  Batch(std::uint32_t n_sequences, std::uint32_t length, const ModelInfo& info) {
    const std::uint32_t n = n_sequences * length;
    for (std::uint32_t i = 0; i < n; ++i) {
      ids.push_back(static_cast<std::int32_t>(i * 7919 % info.n_vocab));
      positions.push_back(static_cast<std::int32_t>(i % length));
      score.push_back(i);
    }
    for (std::uint32_t i = 0; i < length; ++i) canvas_positions.push_back(i);
    for (std::uint32_t s = 0; s < n_sequences; ++s) {
      sequences.emplace_back().begin = s * length;
      sequences.back().length = length;
      StatsRequest request;
      request.first_row = s * length;
      request.positions = canvas_positions;
      request.want = kStatSampled;
      request.n_tokens = info.n_vocab;
      request.mask_id = 0;
      requests.push_back(request);
    }
    stats.reserve(n, 0, 0);
  }

  void step(Model& model) {
    model.forward_stats({ids, positions, sequences, score}, requests, stats);
  }

  std::vector<std::int32_t> ids, positions;
  std::vector<std::uint32_t> score, canvas_positions;
  std::vector<SequenceSlice> sequences;
  std::vector<StatsRequest> requests;
  HeadStats stats;
};

nlohmann::json measure(Model& model, Backend& backend, std::uint32_t n_sequences,
                       std::uint32_t length) {
  const std::uint32_t n = n_sequences * length;
  model.reserve({n, n, n_sequences, length});
  Batch batch(n_sequences, length, model.info());
  for (int i = 0; i < kWarmUps; ++i) batch.step(model);
  std::vector<double> ms;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = Clock::now();
    batch.step(model);
    ms.push_back(ms_since(begin));
  }
  std::sort(ms.begin(), ms.end());
  nlohmann::json out = {{"sequences", n_sequences},
                        {"length", length},
                        {"median_ms", ms[kRepeats / 2]},
                        {"least_ms", ms.front()},
                        {"most_ms", ms.back()}};
  StageSums sums;
  if (!backend.set_profile(&sums)) return out;
  for (int i = 0; i < kProfiled; ++i) batch.step(model);
  backend.set_profile(nullptr);
  out["stages"] = sums.per_step(kProfiled);
  return out;
}

using Settings = std::map<std::string, std::string, std::less<>>;

nlohmann::json report(const std::string& path, const std::string& plugins,
                      const std::string& backend_id, const Settings& settings) {
  const Log log;
  PluginRegistry registry(log);
  const std::array<std::filesystem::path, 1> folders = {plugins};
  registry.scan(folders);
  const PluginRecord& record = registry.require(PluginKind::backend, backend_id);
  const auto backend =
      record.backend->create(check_options(record.backend->options(), settings, backend_id), log);
  const auto file = GgufFile::open(path);
  const auto begin = Clock::now();
  const auto model = registry.require_model(file->get_string("general.architecture"))
                         .model->load(file, *backend, log, [](auto, auto) {});
  nlohmann::json out = {{"model", std::filesystem::path(path).filename().string()},
                        {"architecture", model->info().architecture},
                        {"device", backend->device().name},
                        {"options", settings},
                        {"load_ms", ms_since(begin)},
                        {"steps", nlohmann::json::array()}};
  for (const auto& [n_sequences, length] : std::array<std::array<std::uint32_t, 2>, 6>{
           {{1, 64}, {1, 160}, {1, 256}, {1, 512}, {1, 1024}, {8, 160}}})
    out["steps"].push_back(measure(*model, *backend, n_sequences, length));
  return out;
}

Settings settings_of(int argc, char** argv) {
  Settings settings;
  for (int i = 4; i < argc; ++i) {
    const std::string setting = argv[i];
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) throw std::invalid_argument(setting + " is no OPTION=VALUE");
    settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: gpu_steps MODEL.gguf PLUGIN_FOLDER [BACKEND [OPTION=VALUE ...]]\n");
    return 2;
  }
  try {
    std::printf("%s\n",
                report(argv[1], argv[2], argc > 3 ? argv[3] : "cuda", settings_of(argc, argv))
                    .dump(1)
                    .c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
