#include "trace/trace_fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace dllm::cli {
namespace {

// A value as a message shows it: short, whatever it is.
std::string shown(const TraceJson& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  const std::string text = value.dump(-1, ' ', false, TraceJson::error_handler_t::replace);
  constexpr std::size_t kLongest = 40;
  return text.size() <= kLongest ? text
                                 : fmt::format("a {} of {} bytes", value.type_name(), text.size());
}

}  // namespace

TraceJson parse_trace_line(const std::string& text) {
  if (text.find_first_not_of(" \t\r") == std::string::npos) throw Fault("the line is empty");
  // The library takes a NUL byte for the end of the text.
  if (const std::size_t at = text.find('\0'); at != std::string::npos) {
    throw Fault(fmt::format("the line is no JSON: byte {} of {} is NUL", at + 1, text.size()));
  }
  constexpr int kDeepest = 6;
  const auto shallow = [&](int depth, TraceJson::parse_event_t, TraceJson&) {
    if (depth > kDeepest)
      throw Fault(fmt::format("lists or objects nested over {} deep", kDeepest));
    return true;
  };
  try {
    return TraceJson::parse(text, shallow);
  } catch (const TraceJson::parse_error& error) {
    throw Fault(
        error.byte > text.size()
            ? fmt::format("the line is no JSON: it breaks off after {}",
                          text.size() == 1 ? "1 byte" : fmt::format("{} bytes", text.size()))
            : fmt::format("the line is no JSON from byte {} of {} on", error.byte, text.size()));
  } catch (const TraceJson::out_of_range&) {
    throw Fault("a number is too large");
  }
}

Fields::Fields(const TraceJson& json, const char* what) : json_(json), what_(what) {
  if (!json.is_object()) throw Fault(fmt::format("{} is {}, not an object", what, shown(json)));
}

void Fields::refuse(const char* key, const std::string& why) const {
  throw Fault(fmt::format("'{}' of {} {}", key, what_, why));
}

const TraceJson& Fields::at(const char* key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) throw Fault(fmt::format("{} has no key '{}'", what_, key));
  return *found;
}

bool Fields::boolean(const char* key) const {
  const TraceJson& value = at(key);
  if (!value.is_boolean()) refuse(key, fmt::format("is {}, not true or false", shown(value)));
  return value.get<bool>();
}

std::string Fields::text(const char* key) const {
  const TraceJson& value = at(key);
  if (!value.is_string()) refuse(key, fmt::format("is {}, not a text", shown(value)));
  return value.get<std::string>();
}

float Fields::checked_number(const TraceJson& value, const char* key, double least,
                             double most) const {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    refuse(key, fmt::format("is {}, allowed are {} to {}", shown(value), least, most));
  }
  return static_cast<float>(number);
}

float Fields::number(const char* key, double least, double most) const {
  return checked_number(at(key), key, least, most);
}

float Fields::number(const char* key) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (at(key).is_null()) return std::numeric_limits<float>::quiet_NaN();
  return number(key, -kLargest, kLargest);
}

float Fields::probability(const char* key) const {
  if (at(key).is_null()) return std::numeric_limits<float>::quiet_NaN();
  return number(key, 0, kMaxProbability);
}

std::vector<float> Fields::numbers(const char* key, std::size_t at_most, double least,
                                   double most) const {
  std::vector<float> out;
  for (const TraceJson& value : list(key, at_most)) {
    out.push_back(checked_number(value, key, least, most));
  }
  return out;
}

std::uint64_t Fields::seed(const char* key) const {
  const TraceJson& value = at(key);
  if (!value.is_number_unsigned()) {
    refuse(key, fmt::format("is {}, allowed are 0 to {}", shown(value), UINT64_MAX));
  }
  return value.get<std::uint64_t>();
}

std::int64_t Fields::checked_integer(const TraceJson& value, const char* key, std::int64_t least,
                                     std::int64_t most) const {
  // Above INT64_MAX the library holds it as unsigned, and would wrap.
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < least || number > most) {
    refuse(key, fmt::format("is {}, allowed are {} to {}", shown(value), least, most));
  }
  return number;
}

const TraceJson& Fields::list(const char* key, std::size_t most) const {
  const TraceJson& value = at(key);
  if (!value.is_array()) refuse(key, fmt::format("is {}, not a list", shown(value)));
  if (value.size() > most) {
    refuse(key, fmt::format("has {} entries, at most {} are allowed", value.size(), most));
  }
  return value;
}

std::vector<std::pair<std::string, std::string>> Fields::texts(const char* key,
                                                               std::size_t most) const {
  const TraceJson& value = at(key);
  if (!value.is_object()) refuse(key, fmt::format("is {}, not an object", shown(value)));
  if (value.size() > most) {
    refuse(key, fmt::format("has {} entries, at most {} are allowed", value.size(), most));
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, text] : value.items()) {
    if (!text.is_string()) refuse(key, fmt::format("holds {}, not texts alone", shown(text)));
    out.emplace_back(name, text.get<std::string>());
  }
  return out;
}

}  // namespace dllm::cli
