// Fields of a trace line, checked as they are read: a trace may come from anybody.
//
//   const Fields line(json, "an edit");
//   line.integer<std::uint32_t>("position", 0, 4095);
//   // throws Fault: "position of an edit is -1, allowed are 0 to 4095"
//   line.list("rows", 100);
//
// Thread rule: values, any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace dllm::cli {

/// Keys in the order of the alphabet: the library finds them fast however many there are.
using TraceJson = nlohmann::json;

/// A sum of rounded floats may be a little above 1.
constexpr double kMaxProbability = 1.001;

/// What is wrong with a line; the reader adds file and line number.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One line of JSON. Throws Fault where it is none, or nested deeper than a trace is.
TraceJson parse_trace_line(const std::string& text);

/// The keys of one JSON object. Borrows it; `what` names it in messages and must be a constant.
class Fields {
 public:
  Fields(const TraceJson& json, const char* what);

  bool has(const char* key) const { return json_.contains(key); }
  bool boolean(const char* key) const;
  std::string text(const char* key) const;
  /// Null is NaN, as the writer has it. Throws Fault beyond what a float holds.
  float number(const char* key) const;
  /// From 0 to 1, or null as above.
  float probability(const char* key) const;
  /// Finite, from `least` to `most`.
  float number(const char* key, double least, double most) const;
  std::uint64_t seed(const char* key) const;
  template <typename T>
  T integer(const char* key, std::int64_t least, std::int64_t most) const {
    return static_cast<T>(checked_integer(at(key), key, least, most));
  }

  Fields object(const char* key, const char* what) const { return {at(key), what}; }
  /// An array of at most `most` elements.
  const TraceJson& list(const char* key, std::size_t most) const;
  template <typename T>
  std::vector<T> integers(const char* key, std::size_t at_most, std::int64_t least,
                          std::int64_t most) const {
    std::vector<T> out;
    for (const TraceJson& value : list(key, at_most)) {
      out.push_back(static_cast<T>(checked_integer(value, key, least, most)));
    }
    return out;
  }
  std::vector<float> numbers(const char* key, std::size_t at_most, double least, double most) const;
  /// An object of at most `most` texts, in any order of keys.
  std::vector<std::pair<std::string, std::string>> texts(const char* key, std::size_t most) const;

 private:
  const TraceJson& at(const char* key) const;
  std::int64_t checked_integer(const TraceJson& value, const char* key, std::int64_t least,
                               std::int64_t most) const;
  float checked_number(const TraceJson& value, const char* key, double least, double most) const;
  [[noreturn]] void refuse(const char* key, const std::string& why) const;

  const TraceJson& json_;
  const char* what_;
};

}  // namespace dllm::cli
