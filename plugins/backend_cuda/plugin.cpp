// The plugin's face: options, probe, factory. Loads without a driver (cudart is linked statically
// and looks the driver up when it is first called) and says why it cannot run.
#include <cuda_runtime.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_backend.hpp"
#include "cuda_check.hpp"
#include "dllm/error.hpp"
#include "dllm/plugin_entry.hpp"

namespace dllm::cuda {
namespace {

constexpr int kLeastMajor = 8;  // compute capability: mma.sync m16n8k16, cp.async

std::vector<OptionInfo> make_options() {
  return {
      {.name = "device",
       .type = OptionType::integer,
       .default_value = "0",
       .help = "number of the GPU, from 0 in the order of --list-devices",
       .minimum = 0,
       .maximum = 63,
       .choices = {}},
      {.name = "gpu_memory",
       .type = OptionType::number,
       .default_value = "0",
       .help = "GiB of GPU memory to stay below, what others use included; 0: all that is free",
       .minimum = 0,
       .maximum = 4096,
       .choices = {}},
      {.name = "products",
       .type = OptionType::choice,
       .default_value = "auto",
       .help = "f16: weights and activations in binary16; int8: both rounded to int8, one step for "
               "128 or 256 inputs: less exact, faster (compute capability 9.0); mixed: int8 for "
               "matrices of four to eight bits that can afford it, f16 for the others; auto: mixed "
               "on compute capability 9.0 where it fits, else f16",
       .choices = {"auto", "f16", "int8", "mixed"}}};
}

std::optional<Products> products_of(const std::string& text) {
  for (const Products each : {Products::f16, Products::int8, Products::mixed})
    if (text == name_of(each)) return each;
  return std::nullopt;  // auto
}

std::string capability(const cudaDeviceProp& properties) {
  return std::to_string(properties.major) + "." + std::to_string(properties.minor);
}

struct Gpu {
  int number = 0;  // CUDA's
  cudaDeviceProp properties{};
};

// The GPUs that can be used, in the order in which --list-devices shows them and option `device`
// counts them. `refusal` says why the last other one cannot be.
std::vector<Gpu> list_gpus(int count, std::string& refusal) {
  std::vector<Gpu> gpus;
  for (int i = 0; i < count; ++i) {
    Gpu gpu = {i, {}};
    if (cudaGetDeviceProperties(&gpu.properties, i) != cudaSuccess) {
      (void)cudaGetLastError();
      refusal = "GPU " + std::to_string(i) + " does not answer";
    } else if (gpu.properties.major < kLeastMajor) {
      refusal = std::string(gpu.properties.name) + " has compute capability " +
                capability(gpu.properties) + ", 8.0 or newer is needed";
    } else {
      gpus.push_back(gpu);
    }
  }
  return gpus;
}

class CudaBackendFactory final : public BackendFactory {
 public:
  Probe probe() const override {
    Probe probe;
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      (void)cudaGetLastError();
      probe.reason = status == cudaErrorInsufficientDriver
                         ? "no NVIDIA driver was found, or it is older than CUDA 13 needs"
                         : "no NVIDIA GPU was found";
      if (status != cudaSuccess && status != cudaErrorInsufficientDriver &&
          status != cudaErrorNoDevice)
        probe.reason += std::string(" (") + cudaGetErrorString(status) + ")";
      return probe;
    }
    for (const Gpu& gpu : list_gpus(count, probe.reason)) {
      DeviceInfo info;
      info.backend = "cuda";
      info.name = gpu.properties.name;
      info.isa =
          "sm_" + std::to_string(gpu.properties.major) + std::to_string(gpu.properties.minor);
      info.total_bytes = gpu.properties.totalGlobalMem;
      info.available_bytes = gpu.properties.totalGlobalMem;
      probe.devices.push_back(info);
    }
    probe.usable = !probe.devices.empty();
    if (probe.usable) probe.reason.clear();
    return probe;
  }

  int preference() const override { return 100; }
  std::span<const OptionInfo> options() const override { return options_; }

  std::unique_ptr<Backend> create(const OptionValues& options, const Log& log) const override {
    CudaOptions chosen;
    if (const auto device = options.find("device"); device != options.end())
      chosen.device = static_cast<int>(device->second.integer);
    if (const auto limit = options.find("gpu_memory"); limit != options.end())
      chosen.memory_limit = static_cast<std::uint64_t>(limit->second.number * 1073741824.0);
    if (const auto products = options.find("products"); products != options.end())
      chosen.products = products_of(products->second.text);
    int count = 0;
    cuda_check(cudaGetDeviceCount(&count), "counting GPUs");
    std::string refusals;
    const std::vector<Gpu> gpus = list_gpus(count, refusals);
    if (gpus.empty())
      throw Error(ErrorCode::resource, refusals, "backend cuda", "use --backend cpu");
    if (static_cast<std::size_t>(chosen.device) >= gpus.size())
      throw Error(ErrorCode::bad_usage,
                  "there is no GPU " + std::to_string(chosen.device) + ", this machine has " +
                      std::to_string(gpus.size()) + " that can be used, numbered from 0",
                  "backend cuda, option device", "see --list-devices");
    chosen.device = gpus[static_cast<std::size_t>(chosen.device)].number;
    chosen.log = log;
    auto backend = std::make_unique<CudaBackend>(chosen);
    log.info("cuda", backend->device().name + ", " + backend->device().isa);
    return backend;
  }

 private:
  std::vector<OptionInfo> options_ = make_options();
};

}  // namespace
}  // namespace dllm::cuda

DLLM_BACKEND_PLUGIN("cuda", "1.0.0", "CUDA backend: packed weights, tensor cores, one GPU",
                    dllm::cuda::CudaBackendFactory)
