#include "arguments/config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "arguments/escapes.hpp"
#include "dllm/display_text.hpp"
#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

constexpr std::string_view kBlanks = " \t\r";

[[noreturn]] void refuse(const std::string& place, std::string fact, std::string fix) {
  throw Error(ErrorCode::bad_usage, std::move(fact), place, std::move(fix));
}

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Without a comment: `#` at the start or after a blank begins one.
std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) {
      return text.substr(0, i);
    }
  }
  return text;
}

// The value that starts with a quote at text[0]; what follows it may be a comment only.
std::string read_quoted(std::string_view text, const std::string& place) {
  std::size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  if (end >= text.size()) {
    refuse(place, "the value starts with a quote and has no closing one",
           "write \\\" for a quote inside the value");
  }
  if (!trim(without_comment(text.substr(end + 1))).empty()) {
    refuse(place, fmt::format("text after the closing quote: '{}'", trim(text.substr(end + 1))),
           "write \\\" for a quote inside the value");
  }
  return unescape(text.substr(1, end - 1));
}

std::string read_value(std::string_view text, const std::string& place) {
  text = trim(text);
  if (text.starts_with('"')) return read_quoted(text, place);
  return std::string(trim(without_comment(text)));
}

std::string read_section(std::string_view line, const std::string& place) {
  const std::string_view text = trim(without_comment(line));
  const std::string name(text.ends_with(']') ? trim(text.substr(1, text.size() - 2)) : "");
  if (name == "sampler" || name == "backend") return name;
  const std::vector<std::string> known{"sampler", "backend"};
  const std::string near = nearest_match(name, known);
  refuse(place, fmt::format("unknown section '{}'", text),
         near.empty() ? "sections are [sampler] and [backend]"
                      : fmt::format("did you mean '[{}]'?", near));
}

Assignment section_assignment(const ConfigEntry& entry, const std::string& place) {
  const Owner owner = entry.section == "sampler" ? Owner::sampler : Owner::backend;
  return make_plugin_assignment(owner, entry.key, entry.value, entry.key, place);
}

[[noreturn]] void refuse_key(const ConfigEntry& entry, const std::string& place) {
  const std::string typed = "--" + entry.key;
  std::string near = nearest_match(typed, all_spellings(kAllCommands));
  if (near.starts_with("--")) near.erase(0, 2);
  refuse(place, fmt::format("unknown key '{}'", entry.key),
         near.empty() ? "a key is an option's long name; see `dllm run --help`"
                      : fmt::format("did you mean '{}'?", near));
}

// A key outside the sections: an option by any of its long spellings.
Assignment option_assignment(const ConfigEntry& entry, const std::string& place,
                             const std::filesystem::path& base) {
  const auto found = find_spelling("--" + entry.key);
  if (!found) refuse_key(entry, place);
  const OptionSpec& spec = *found->spec;
  if (spec.command_line_only) {
    refuse(place, fmt::format("'{}' is no key of a config file", entry.key),
           spec.name == "set" || spec.name == "backend-set"
               ? "put the option into the section [sampler] or [backend]"
               : "give it on the command line");
  }
  Assignment made = make_assignment(spec, entry.value, entry.key, place, base);
  if (found->negated) made.value = made.value == "true" ? "false" : "true";
  return made;
}

}  // namespace

std::vector<ConfigEntry> parse_config(std::istream& in, const std::string& name) {
  std::vector<ConfigEntry> entries;
  std::string section;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::string_view text = line;
    if (number == 1 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    const std::string place = fmt::format("{}:{}", name, number);
    const std::string_view content = trim(without_comment(text));
    if (content.empty()) continue;
    if (content.front() == '[') {
      section = read_section(content, place);
      continue;
    }
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || trim(text.substr(0, equals)).empty()) {
      refuse(place, fmt::format("'{}' is no `key = value`", content), "write key = value");
    }
    entries.push_back({section, std::string(trim(text.substr(0, equals))),
                       read_value(text.substr(equals + 1), place), number});
  }
  return entries;
}

// The whole file; one that never ends (a device) is refused instead of filling the memory.
std::string read_bounded(std::istream& in, const std::string& name) {
  constexpr std::size_t kLargestMiB = 64;
  std::string text;
  std::array<char, 65536> chunk;
  while (in.read(chunk.data(), chunk.size()), in.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kLargestMiB << 20) {
      refuse(name, fmt::format("the config file is larger than {} MiB", kLargestMiB),
             "give a text file of settings to --config");
    }
  }
  if (in.bad()) {  // a drive that fails halfway would pass for a shorter file
    refuse(name, fmt::format("cannot read the config file: {}", std::strerror(errno)),
           "give a readable file to --config");
  }
  return text;
}

std::vector<Assignment> read_config(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code status;
  if (std::filesystem::is_directory(path, status)) {
    refuse(name, "the config file is a directory", "give a file");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    refuse(name, fmt::format("cannot read the config file: {}", std::strerror(errno)),
           "give a readable file to --config");
  }
  const std::filesystem::path base = std::filesystem::absolute(path).parent_path();
  std::vector<Assignment> assignments;
  std::istringstream text(read_bounded(in, name));
  for (const ConfigEntry& entry : parse_config(text, name)) {
    const std::string place = fmt::format("{}:{}", name, entry.line);
    assignments.push_back(entry.section.empty() ? option_assignment(entry, place, base)
                                                : section_assignment(entry, place));
  }
  return assignments;
}

std::string quote_value(std::string_view value) {
  // Where the text is no UTF-8 as a whole, every byte above ASCII is written as a number.
  const bool is_utf8 = replace_invalid_utf8(value) == value;
  std::string out = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !is_utf8)) {
      out += fmt::format("\\x{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string config_value(std::string_view value) {
  const bool is_plain =
      !value.empty() && trim(value) == value && value.front() != '"' &&
      without_comment(value) == value &&
      std::ranges::all_of(value, [](unsigned char c) { return c >= 0x20 && c != 0x7F; }) &&
      replace_invalid_utf8(value) == value;
  return is_plain ? std::string(value) : quote_value(value);
}

}  // namespace dllm::cli
