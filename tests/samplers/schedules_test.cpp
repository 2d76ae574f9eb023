// How many positions each round commits, for every size, number of steps and block length in a
// range: the plugins against the published schedules, written here again and apart.
#include <gtest/gtest.h>

#include <algorithm>

#include "play.hpp"
#include "property.hpp"

namespace {

using dllm::test::counts_of;
using dllm::test::play;
using dllm::test::Played;
using dllm::test::prompt_and_masks;
using dllm::test::Texts;
using Counts = std::vector<std::uint32_t>;

std::string text(std::uint32_t value) { return std::to_string(value); }

// The largest size; its cube is the work.
std::uint32_t largest(std::uint32_t usual) {
  std::uint32_t size = usual;
  while (size * size * size < usual * usual * usual * dllm::test::property_factor()) ++size;
  return size;
}

// The run ends with its last commit, not with its last step.
Counts without_idle_end(Counts counts) {
  while (!counts.empty() && counts.back() == 0) counts.pop_back();
  return counts;
}

// LLaDA generate.py, get_num_transfer_tokens: base = masked / steps everywhere, and one more in the
// first (masked mod steps) places.
void append_transfer_tokens(Counts& counts, std::uint32_t masked, std::uint32_t steps) {
  const std::uint32_t base = masked / steps, remainder = masked % steps;
  for (std::uint32_t i = 0; i < steps; ++i) counts.push_back(base + (i < remainder ? 1 : 0));
}

// generate.py: num_blocks = n / block, steps / num_blocks in each; both must divide.
Counts llada_reference(std::uint32_t n, std::uint32_t steps, std::uint32_t block) {
  Counts counts;
  const std::uint32_t blocks = n / block;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    append_transfer_tokens(counts, block, steps / blocks);
  }
  return counts;
}

// Where they do not divide (docs/samplers.md): the last block is short, the first blocks have the
// steps that are left over.
Counts llada_extended(std::uint32_t n, std::uint32_t steps, std::uint32_t block) {
  Counts counts, shares;
  const std::uint32_t blocks = (n + block - 1) / block;
  append_transfer_tokens(shares, steps, blocks);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    append_transfer_tokens(counts, std::min(block, n - b * block), shares[b]);
  }
  return counts;
}

void expect_llada(std::uint32_t n, std::uint32_t steps, std::uint32_t block, bool exact,
                  const Counts& want) {
  const Played played = play(
      dllm::test::plugin("llada"),
      {{"steps", text(steps)}, {"block_length", text(block)}, {"exact", exact ? "true" : "false"}},
      prompt_and_masks(2, n));
  ASSERT_EQ(counts_of(played), without_idle_end(want))
      << "masked " << n << ", block_length " << block << ", steps " << steps << ", exact " << exact;
  ASSERT_EQ(played.canvas.n_open(), 0U);
}

TEST(Schedules, LladaEqualsTheReferenceForAllSizesStepsAndBlocks) {
  const std::uint32_t size = largest(28);
  std::uint32_t n_published = 0;
  for (std::uint32_t n = 1; n <= size; ++n) {
    for (std::uint32_t block = 1; block <= n + 1; ++block) {
      const std::uint32_t blocks = (n + block - 1) / block;
      for (std::uint32_t steps = blocks; steps <= 2 * n + 3; ++steps) {
        ASSERT_NO_FATAL_FAILURE(
            expect_llada(n, steps, block, false, llada_extended(n, steps, block)));
        if (n % block != 0 || steps % blocks != 0) continue;
        ASSERT_EQ(llada_reference(n, steps, block), llada_extended(n, steps, block));
        ASSERT_NO_FATAL_FAILURE(
            expect_llada(n, steps, block, true, llada_reference(n, steps, block)));
        ++n_published;
      }
    }
  }
  EXPECT_GT(n_published, 400U);
}

// torch.linspace(1, eps, steps + 1) in float32: from the first end below the middle, from the last
// end above it.
std::vector<float> torch_times(std::uint32_t steps, float eps) {
  std::vector<float> times(steps + 1);
  const float step = (eps - 1.0F) / static_cast<float>(steps);
  const std::size_t n_points = times.size();
  for (std::size_t i = 0; i < n_points; ++i) {
    times[i] = i < n_points / 2 ? 1.0F + step * static_cast<float>(i)
                                : eps - step * static_cast<float>(n_points - 1 - i);
  }
  return times;
}

// Dream generation_utils.py, _sample: int(masked * (1 - s / t)) of what is masked now, all at the
// last step.
Counts dream_reference(std::uint32_t n, std::uint32_t steps, float eps) {
  const std::vector<float> times = torch_times(steps, eps);
  Counts counts;
  float masked = static_cast<float>(n);
  for (std::uint32_t i = 0; i < steps; ++i) {
    const float share = i < steps - 1 ? 1.0F - times[i + 1] / times[i] : 1.0F;
    counts.push_back(static_cast<std::uint32_t>(masked * share));
    masked -= static_cast<float>(counts.back());
  }
  return counts;
}

TEST(Schedules, DreamEqualsTheReferenceForAllSizesAndSteps) {
  const std::uint32_t size = largest(40);
  const char* const algorithms[] = {"maskgit_plus", "topk_margin", "entropy"};
  for (std::uint32_t n = 1; n <= size; ++n) {
    for (std::uint32_t steps = 1; steps <= 2 * size; ++steps) {
      for (const char* eps : {"0.001", "0.1", "0.7"}) {
        const Played played =
            play(dllm::test::plugin("dream"),
                 {{"algorithm", algorithms[(n + steps) % 3]}, {"steps", text(steps)}, {"eps", eps}},
                 prompt_and_masks(2, n));
        ASSERT_EQ(counts_of(played),
                  without_idle_end(dream_reference(n, steps, std::strtof(eps, nullptr))))
            << "masked " << n << ", steps " << steps << ", eps " << eps;
        ASSERT_EQ(played.canvas.n_open(), 0U);
      }
    }
  }
}

}  // namespace
