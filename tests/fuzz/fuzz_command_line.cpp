// Arguments of any bytes for every command: refused as bad usage or read; each value that an option
// accepts has a canonical form that means the same. Input: the command, then arguments, each ended
// by a zero byte.
#include "arguments/command_line.hpp"
#include "arguments/escapes.hpp"
#include "fuzz_target.hpp"
#include "session/number_list.hpp"

namespace {

using namespace dllm::cli;
using dllm::ErrorCode;
using dllm::OptionInfo;
using dllm::OptionType;
using dllm::OptionValue;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

template <typename Call>
bool accepted(Call&& call) {
  const auto error = dllm::test::refusal_of(call);
  FUZZ_REQUIRE(!error || error->code() == ErrorCode::bad_usage);
  return !error;
}

void check_value(const OptionSpec& spec, const std::string& text) {
  const OptionInfo info = spec.info(spec.name);
  OptionValue value;
  if (!accepted([&] { value = dllm::parse_option(info, text, "test"); })) return;
  const OptionValue again = dllm::parse_option(info, value.text, "test");
  FUZZ_REQUIRE(again.text == value.text);
  FUZZ_REQUIRE(again.integer == value.integer && again.number == value.number);
  if (info.type == OptionType::integer || info.type == OptionType::number) {
    FUZZ_REQUIRE(value.number >= info.minimum && value.number <= info.maximum);
    // What is printed before a number: a sign, digits, a point. "+-5" is none.
    FUZZ_REQUIRE(text.find_first_of("+-") == std::string::npos || text.find("+-") != 0);
  }
}

void check_lists(const std::string& text) {
  accepted([&] {
    for (const std::int32_t id : parse_ids(text, "--tokens")) FUZZ_REQUIRE(id >= 0);
  });
  accepted([&] {
    const auto rows = parse_rows(text, 16, "--rows");
    FUZZ_REQUIRE(!rows.empty());
    for (const std::uint32_t row : rows) FUZZ_REQUIRE(row < 16);
  });
}

void check_escapes(const std::string& text) {
  const std::string plain = unescape(text);
  FUZZ_REQUIRE(plain.size() <= text.size());
  FUZZ_REQUIRE(text.find('\\') != std::string::npos || plain == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dllm::test::ByteReader in(data, size);
  const auto commands = command_table();
  const Command command = commands[in.below(static_cast<std::uint32_t>(commands.size()))].command;
  const auto options = option_table();
  const OptionSpec& spec = options[in.below(static_cast<std::uint32_t>(options.size()))];
  const std::vector<std::string> arguments = split(in.rest());
  for (const std::string& argument : arguments) {
    check_value(spec, argument);
    check_lists(argument);
    check_escapes(argument);
  }
  std::vector<Assignment> given;
  if (!accepted([&] { given = parse_command_line(command, arguments); })) return 0;
  Settings settings;
  if (!accepted([&] { settings.merge(given); })) return 0;
  for (const Assignment& assignment : given) {
    const Setting* setting = settings.find(assignment.key);
    FUZZ_REQUIRE(setting != nullptr && !setting->values.empty());
    FUZZ_REQUIRE(std::ranges::find(setting->values, assignment.value) != setting->values.end());
  }
  return 0;
}
