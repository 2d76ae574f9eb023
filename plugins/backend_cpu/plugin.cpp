// The plugin's face: options, probe, factory.
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"
#include "dllm/plugin_entry.hpp"
#include "machine.hpp"

namespace dllm::cpu {
namespace {

constexpr unsigned kMostThreads = 1024;

std::vector<OptionInfo> make_options() {
  std::vector<std::string> isas = {"auto"};
  for (const Isa& each : all_isas()) isas.emplace_back(each.name);
  return {
      {.name = "threads",
       .type = OptionType::integer,
       .default_value = "0",
       .help = "worker threads; 0: the physical cores that affinity and cgroup quota allow",
       .minimum = 0,
       .maximum = kMostThreads,
       .choices = {}},
      {.name = "products",
       .type = OptionType::choice,
       .default_value = "fast",
       .help = "fast: K types rounded once more, to int8 of one scale per 256 inputs, where the "
               "instruction set gains by it; exact: integer products with weights as stored and "
               "activations at least as fine as llama.cpp's, up to twice the time; f32: weights "
               "decoded on the fly, slow",
       .choices = {"fast", "exact", "f32"}},
      {.name = "isa",
       .type = OptionType::choice,
       .default_value = "auto",
       .help = "instruction set; auto: DLLM_CPU_ISA of the environment, else the fastest",
       .choices = std::move(isas)}};
}

const Isa& isa_for(const OptionValues& options) {
  const auto given = options.find("isa");
  if (given != options.end() && given->second.text != "auto")
    return choose_isa(given->second.text, "backend cpu, option isa");
  const char* forced = std::getenv("DLLM_CPU_ISA");
  if (forced && *forced) return choose_isa(forced, "environment variable DLLM_CPU_ISA");
  return choose_isa("auto", "");
}

// More threads than processors only wait for each other: 1000 on two processors took 17 times as
// long as two.
unsigned bounded_threads(unsigned asked, const Log& log) {
  const unsigned most = Arena::max_threads();
  if (asked <= most) return asked;
  log.warning("cpu", std::to_string(asked) + " threads are asked for, " + std::to_string(most) +
                         " are used: as many as this process has processors, or as the host "
                         "application lets oneTBB use; more would only wait");
  return most;
}

// The portable kernels are what others are compared with, written to be read.
void warn_of_portable(const Isa& isa, const Log& log) {
  const std::string_view fastest = choose_isa("auto", "").name;
  if (isa.name == "portable" && isa.name != fastest)
    log.warning("cpu",
                "isa portable takes some 20 times as long as avx2 and is for checks alone; "
                "this processor has " +
                    std::string(fastest));
}

ProductMode product_mode(const std::string& name) {
  if (name == "f32") return ProductMode::f32;
  return name == "exact" ? ProductMode::exact : ProductMode::fast;
}

class CpuBackendFactory final : public BackendFactory {
 public:
  Probe probe() const override {
    Probe probe;
    probe.usable = meets_baseline();
    if (!probe.usable) {
      probe.reason = "this processor lacks x86-64-v2 (SSE4.2, SSSE3, POPCNT)";
      return probe;
    }
    const MemoryFacts memory = memory_facts({});
    DeviceInfo info;
    info.backend = "cpu";
    info.isa = choose_isa("auto", "").name;
    info.threads = usable_threads({});
    info.name = processor_name({});
    info.total_bytes = memory.total_bytes;
    info.available_bytes = memory.available_bytes;
    probe.devices = {info};
    return probe;
  }

  int preference() const override { return 0; }
  std::span<const OptionInfo> options() const override { return options_; }

  std::unique_ptr<Backend> create(const OptionValues& options, const Log& log) const override {
    if (!meets_baseline())
      throw Error(ErrorCode::resource, "this processor lacks x86-64-v2 (SSE4.2, SSSE3, POPCNT)",
                  "backend cpu", "use a machine built after 2010");
    const Isa& isa = isa_for(options);
    CpuOptions chosen;
    const auto threads = options.find("threads");
    if (threads != options.end()) chosen.n_threads = static_cast<unsigned>(threads->second.integer);
    if (threads == options.end() || chosen.n_threads == 0) chosen.n_threads = usable_threads({});
    chosen.n_threads = bounded_threads(chosen.n_threads, log);
    const auto products = options.find("products");
    if (products != options.end()) chosen.products = product_mode(products->second.text);
    chosen.log = log;
    require_threads(chosen.n_threads - 1);
    auto backend = std::make_unique<CpuBackend>(isa, chosen);
    log.info("cpu", backend->device().name);
    warn_of_portable(isa, log);
    return backend;
  }

 private:
  std::vector<OptionInfo> options_ = make_options();
};

}  // namespace
}  // namespace dllm::cpu

DLLM_BACKEND_PLUGIN("cpu", "1.0.0", "CPU backend: quantised weights, integer products, oneTBB",
                    dllm::cpu::CpuBackendFactory)
