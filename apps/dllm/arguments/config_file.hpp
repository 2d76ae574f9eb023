// Config files: the command line's options as `key = value` lines.
//
//   # a comment
//   model = ../models/llada.gguf        # relative to this file
//   prompt = "two lines\nwith a # in it"
//   [sampler]
//   steps = 32
//   [backend]
//   threads = 4
//
// A key is an option's long name. A value is the rest of the line without the blanks around it; `#`
// at the start of a line or after a blank begins a comment. A value in double quotes is taken as it
// is, with \n \r \t \" \\ and \xHH; flags take true or false. Our own reader, for
// Boost.Program_options cuts values at every `#` and knows no line numbers. Thread rule: pure
// functions, any thread.
#pragma once

#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/settings.hpp"

namespace dllm::cli {

struct ConfigEntry {
  std::string section;  ///< "", "sampler", "backend"
  std::string key;
  std::string value;
  int line = 0;
};

/// Lines of a config text; `name` is the file in messages ("runs/haiku.cfg:3").
std::vector<ConfigEntry> parse_config(std::istream& in, const std::string& name);

/// A config file as assignments, every key and value checked. Throws Error (bad_usage) with file
/// and line; an unknown key with its nearest match.
std::vector<Assignment> read_config(const std::filesystem::path& path);

/// The value as a config file writes it: bare where that reads back the same, else quoted.
std::string config_value(std::string_view value);
/// In double quotes with escapes; bytes that are no UTF-8 as \xHH.
std::string quote_value(std::string_view value);

}  // namespace dllm::cli
