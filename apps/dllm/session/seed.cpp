#include "session/seed.hpp"

#include <random>

namespace dllm::cli {

std::uint64_t choose_seed(const Settings& settings) {
  const std::int64_t given = settings.integer("seed");
  if (given >= 0) return static_cast<std::uint64_t>(given);
  std::random_device device;
  return device() & 0xFFFFFFFFu;
}

}  // namespace dllm::cli
