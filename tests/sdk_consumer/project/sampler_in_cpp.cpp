// The same kind of rule over the C++ wrapper: `at_once` positions a step, the surest first.
#include "dllm_sdk/sampler.hpp"

namespace {

using namespace dllm::sdk;

class SurestRun : public Run {
 public:
  explicit SurestRun(std::size_t at_once) : at_once_(at_once) {}

  void plan(const Canvas& canvas, Plan& plan) const override {
    plan.positions = canvas.open_positions();
    plan.want = DLLM_STAT_ARGMAX | DLLM_STAT_TOP2;
  }

  Progress apply(const Canvas&, const Stats& stats, Edits& edits) override {
    std::vector<double> scores;
    for (std::uint32_t row = 0; row < stats.rows(); ++row) scores.push_back(stats.top1_prob(row));
    for (const std::uint32_t row : largest(scores, at_once_)) {
      edits.commit(stats.position(row), stats.argmax(row), scores[row]);
    }
    return edits.size() == stats.rows() ? Progress::finished : Progress::running;
  }

 private:
  std::size_t at_once_;
};

class Surest : public Sampler {
 public:
  Surest(const Options& options, const dllm_model_facts&) : at_once_(options.integer("at_once")) {}

  std::unique_ptr<Run> start(const Canvas& canvas, std::uint64_t) const override {
    if (at_once_ > canvas.size()) {
      throw OptionError("at_once " + std::to_string(at_once_) + " exceeds the canvas of " +
                        std::to_string(canvas.size()) + ". Fix: give a smaller at_once");
    }
    return std::make_unique<SurestRun>(static_cast<std::size_t>(at_once_));
  }

 private:
  std::int64_t at_once_;
};

constexpr dllm_option_info kOptions[] = {
    integer_option("at_once", "2", 1, kUnbounded, "positions committed a step")};

}  // namespace

DLLM_SAMPLER_PLUGIN("in_cpp", "1.0.0", "surest positions first", Surest, kOptions)
