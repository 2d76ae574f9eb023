// Config files of any bytes: a fault is told with file and line; what is accepted is printed by
// --print-config so that it reads back the same; any value survives quoting.
#include <sstream>

#include "arguments/config_file.hpp"
#include "arguments/print_config.hpp"
#include "arguments/settings.hpp"
#include "fuzz_target.hpp"
#include "memory_file.hpp"

namespace {

using namespace dllm::cli;
using dllm::ErrorCode;

std::vector<ConfigEntry> parse(const std::string& text) {
  std::istringstream in(text);
  return parse_config(in, "x.cfg");
}

void check_quoting(const std::string& value) {
  const auto entries = parse("key = " + config_value(value) + "  # origin\n");
  FUZZ_REQUIRE(entries.size() == 1 && entries.front().value == value);
}

// Plugins know their options' names; a file may hold any.
std::vector<PluginValue> named_options(const Settings& settings, Owner owner) {
  std::vector<PluginValue> values;
  for (const auto& [name, setting] : settings.plugin_options(owner)) {
    const bool is_name =
        !name.empty() &&
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
    if (is_name) values.push_back({name, setting.values.front(), setting.origin()});
  }
  return values;
}

std::string printed(const Settings& settings) {
  return print_config(
      kRun, settings,
      {named_options(settings, Owner::sampler), named_options(settings, Owner::backend)});
}

bool same_entries(const std::vector<ConfigEntry>& a, const std::vector<ConfigEntry>& b) {
  return std::ranges::equal(a, b, [](const ConfigEntry& x, const ConfigEntry& y) {
    return x.section == y.section && x.key == y.key && x.value == y.value;
  });
}

std::optional<Settings> read(const dllm::test::MemoryFile& file) {
  Settings settings;
  const auto error = dllm::test::refusal_of([&] { settings.merge(read_config(file.path())); });
  if (!error) return settings;
  FUZZ_REQUIRE(error->code() == ErrorCode::bad_usage);
  FUZZ_REQUIRE(error->where().find(file.path().string()) != std::string::npos);
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dllm::test::MemoryFile given;
  static const dllm::test::MemoryFile again;
  const std::string text(dllm::test::as_text(data, size));
  check_quoting(text);
  dllm::test::refusal_of([&] {
    for (const ConfigEntry& entry : parse(text)) check_quoting(entry.value);
  });
  given.set(text);
  const auto settings = read(given);
  if (!settings) return 0;
  const std::string first = printed(*settings);
  again.set(first);
  const auto reread = read(again);
  FUZZ_REQUIRE(reread.has_value());
  FUZZ_REQUIRE(same_entries(parse(first), parse(printed(*reread))));
  return 0;
}
