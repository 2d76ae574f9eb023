#include "plugin/option_infos.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "dllm/error.hpp"
#include "plugin/foreign_memory.hpp"
#include "plugin/foreign_text.hpp"

namespace dllm {
namespace {

// Far above any real plugin; a larger number is a lie or a stray pointer's neighbour.
constexpr std::uint32_t kMaxOptions = 1000;
constexpr std::uint32_t kMaxChoices = 1000;
constexpr std::size_t kMaxTextBytes = 4096;

// Size at ABI 1.0; later minors only append.
constexpr std::size_t kFirstInfoBytes =
    offsetof(dllm_option_info, choices) + sizeof(dllm_option_info::choices);

std::string judge_value(const OptionInfo& info) {
  if (info.type == OptionType::integer || info.type == OptionType::number) {
    if (!(info.minimum <= info.maximum)) {
      return fmt::format("option {} has minimum {} and maximum {}", info.name, info.minimum,
                         info.maximum);
    }
  }
  if (info.type == OptionType::choice && info.choices.empty()) {
    return fmt::format("option {} is a choice without choices", info.name);
  }
  try {
    parse_option(info, info.default_value, "its default");
  } catch (const Error& error) {
    return fmt::format("the default of an option is refused by its own range: {}", error.fact());
  }
  return {};
}

// A text the plugin describes an option with, copied; a fact where it lies nowhere, is too long, or
// would do more to a terminal than be read.
std::string copy_text(const char* from, const std::string& what, std::string& to) {
  if (std::string fact = judge_memory(from); !fact.empty()) return what + ": " + fact;
  const std::size_t size = ::strnlen(from, kMaxTextBytes + 1);
  if (size > kMaxTextBytes) return fmt::format("{} is longer than {} bytes", what, kMaxTextBytes);
  to.assign(from, size);
  if (printable(to) == to) return {};
  return fmt::format("{} holds control characters, or is no UTF-8", what);
}

// Copies one info whose struct is whole; a fact where it is malformed.
std::string copy_info(const dllm_option_info& from, std::uint32_t index, OptionInfo& to) {
  constexpr std::size_t kLongestName = 64;
  if (std::string unreadable = judge_memory(from.name); from.name && !unreadable.empty()) {
    return fmt::format("the name of option {}: {}", index, unreadable);
  }
  to.name =
      from.name == nullptr ? "" : std::string(from.name, ::strnlen(from.name, kLongestName + 1));
  if (!is_option_name(to.name)) {
    return fmt::format("option {} is named '{}', a name has 1 to {} of a-z, 0-9 and _", index,
                       printable(to.name), kLongestName);
  }
  if (from.type > DLLM_OPTION_TEXT) {
    return fmt::format("option {} has type {}, the last known is {}", to.name, from.type,
                       DLLM_OPTION_TEXT);
  }
  to.type = static_cast<OptionType>(from.type);
  if (from.default_value == nullptr) return fmt::format("option {} has no default", to.name);
  const auto owner = [&](const char* what) {
    return fmt::format("the {} of option {}", what, to.name);
  };
  std::string fact = copy_text(from.default_value, owner("default"), to.default_value);
  if (fact.empty() && from.help != nullptr) fact = copy_text(from.help, owner("help"), to.help);
  if (!fact.empty()) return fact;
  to.minimum = from.minimum;
  to.maximum = from.maximum;
  to.minimum_exclusive = (from.flags & DLLM_OPTION_MINIMUM_EXCLUSIVE) != 0;
  to.maximum_exclusive = (from.flags & DLLM_OPTION_MAXIMUM_EXCLUSIVE) != 0;
  if (to.type != OptionType::choice) return {};
  if (from.n_choices > kMaxChoices || (from.n_choices > 0 && from.choices == nullptr)) {
    return fmt::format("option {} has {} choices and {}", to.name, from.n_choices,
                       from.choices == nullptr ? std::string("no list")
                                               : fmt::format("{} are allowed", kMaxChoices));
  }
  fact = judge_memory(from.choices, from.n_choices);
  if (!fact.empty()) return owner("list of choices") + ": " + fact;
  for (std::uint32_t i = 0; i < from.n_choices; ++i) {
    if (from.choices[i] == nullptr) {
      return fmt::format("choice {} of option {} is null", i, to.name);
    }
    fact = copy_text(from.choices[i], owner("choice"), to.choices.emplace_back());
    if (!fact.empty()) return fact;
  }
  return {};
}

}  // namespace

bool is_option_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The values of OptionType are those of the SDK.
static_assert(static_cast<unsigned>(OptionType::integer) == DLLM_OPTION_INTEGER);
static_assert(static_cast<unsigned>(OptionType::number) == DLLM_OPTION_NUMBER);
static_assert(static_cast<unsigned>(OptionType::boolean) == DLLM_OPTION_BOOLEAN);
static_assert(static_cast<unsigned>(OptionType::choice) == DLLM_OPTION_CHOICE);
static_assert(static_cast<unsigned>(OptionType::text) == DLLM_OPTION_TEXT);

std::string judge_option_infos(const std::vector<OptionInfo>& infos) {
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const auto same = [&](const OptionInfo& other) { return other.name == infos[i].name; };
    if (std::any_of(infos.begin(), infos.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      return fmt::format("option {} is described twice", infos[i].name);
    }
    if (std::string fact = judge_value(infos[i]); !fact.empty()) return fact;
  }
  return {};
}

std::variant<std::vector<OptionInfo>, std::string> read_option_infos(const dllm_option_info* infos,
                                                                     std::uint32_t count) {
  if (count > kMaxOptions) {
    return fmt::format("{} options, at most {} are allowed", count, kMaxOptions);
  }
  if (count > 0 && infos == nullptr) return fmt::format("{} options and no list", count);
  std::string unreadable = judge_memory(infos, count * kFirstInfoBytes, alignof(dllm_option_info));
  if (!unreadable.empty()) return "their list: " + unreadable;
  std::vector<OptionInfo> out(count);
  // A plugin of an older minor has a smaller struct: its own size is the stride of its list.
  const std::size_t stride = count > 0 ? infos->struct_size : 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    dllm_option_info info{};
    const auto* at = reinterpret_cast<const char*>(infos) + i * stride;
    std::memcpy(&info.struct_size, at, sizeof info.struct_size);
    if (info.struct_size != stride || stride < kFirstInfoBytes || stride > sizeof info) {
      return fmt::format("option {} has struct_size {}, this runtime expects {}", i,
                         info.struct_size, sizeof info);
    }
    std::memcpy(&info, at, stride);
    if (std::string fact = copy_info(info, i, out[i]); !fact.empty()) return fact;
  }
  if (std::string fact = judge_option_infos(out); !fact.empty()) return fact;
  return out;
}

}  // namespace dllm
