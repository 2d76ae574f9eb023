// Claims over many random inputs: a fixed seed, printed, and more rounds on request.
//
//   Property property("round trip", 20, 4000);        // seed, rounds
//   for (int i = 0; i < property.rounds(); ++i) check(random_text(property.random()));
//
// DLLM_PROPERTY_ROUNDS=10 makes ten times as many rounds (of the same stream, so the first ones are
// the usual ones); DLLM_PROPERTY_SEED=7 starts elsewhere.
#pragma once

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <string_view>

namespace dllm::test {

/// The value of an environment variable as a number of at least 1, or `otherwise`.
inline unsigned number_of_environment(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  const unsigned long value = text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
  return value == 0 ? otherwise : static_cast<unsigned>(value);
}

/// How many times the usual work is asked for.
inline unsigned property_factor() { return number_of_environment("DLLM_PROPERTY_ROUNDS", 1); }

class Property {
 public:
  Property(std::string_view claim, unsigned seed, int usual_rounds)
      : seed_(number_of_environment("DLLM_PROPERTY_SEED", seed)),
        rounds_(usual_rounds * static_cast<int>(property_factor())),
        random_(seed_) {
    std::cout << "[ property ] " << claim << ": seed " << seed_ << ", " << rounds_ << " rounds\n";
  }
  int rounds() const { return rounds_; }
  std::mt19937& random() { return random_; }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<std::uint32_t>(values.size()))];
  }

 private:
  unsigned seed_;
  int rounds_;
  std::mt19937 random_;
};

}  // namespace dllm::test
