// Backend factories that differ in what they say of the machine; none makes a backend.
#include <stdexcept>

#include "dllm/backend.hpp"
#include "dllm/error.hpp"
#include "dllm/plugin_entry.hpp"

namespace {

class TestFactory : public dllm::BackendFactory {
 public:
  Probe probe() const override {
#if defined(TEST_PROBE_THROWS)
    throw std::runtime_error("driver went away");
#elif defined(TEST_UNUSABLE)
    return {.usable = false, .reason = TEST_UNUSABLE, .devices = {}};
#else
    dllm::DeviceInfo device;
    device.name = "unit 0";
    return {.usable = true, .reason = {}, .devices = {device}};
#endif
  }
  int preference() const override { return TEST_PREFERENCE; }
  std::span<const dllm::OptionInfo> options() const override { return options_; }
  std::unique_ptr<dllm::Backend> create(const dllm::OptionValues&,
                                        const dllm::Log&) const override {
    throw dllm::Error(dllm::ErrorCode::resource, "a test factory makes nothing");
  }

 private:
  std::vector<dllm::OptionInfo> options_ = {{.name = "threads",
                                             .type = dllm::OptionType::integer,
                                             .default_value = TEST_DEFAULT,
                                             .help = "threads to use",
                                             .minimum = 0,
                                             .maximum = 64,
                                             .choices = {}}};
};

}  // namespace

DLLM_BACKEND_PLUGIN(TEST_ID, "1.0.0", "a backend for tests", TestFactory)
