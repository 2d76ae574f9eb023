// Loads a model through the plugin registry, as dllm does, and writes the logits of one batch.
// The Python tests compare them with reference_forward.py. `dllm logits` takes one sequence; this
// takes a ragged pack of them.
//
//   logits_driver --model F --sequence 1,2,3 --sequence 4,5 --score 0,4 --out logits.bin
//                 [--raw] [--set NAME=VALUE]...
//
// --score: packed token indices (default: all); --raw: rows instead of positions; --set: an option
// of the CPU backend. The file is f32 [scored, vocabulary].
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "dllm/runtime.hpp"

namespace {

struct Arguments {
  std::string model;
  std::string out;
  std::vector<std::vector<std::int32_t>> sequences;
  std::vector<std::uint32_t> score;
  bool raw = false;
  std::map<std::string, std::string, std::less<>> options;
};

std::vector<std::int32_t> parse_list(const std::string& text) {
  std::vector<std::int32_t> values;
  std::stringstream stream(text);
  for (std::string value; std::getline(stream, value, ',');) values.push_back(std::stoi(value));
  return values;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--raw") {
      arguments.raw = true;
      continue;
    }
    const std::string value =
        i + 1 < argc ? argv[++i] : throw std::runtime_error(name + " needs a value");
    if (name == "--model")
      arguments.model = value;
    else if (name == "--out")
      arguments.out = value;
    else if (name == "--sequence")
      arguments.sequences.push_back(parse_list(value));
    else if (name == "--score") {
      for (const std::int32_t row : parse_list(value)) {
        arguments.score.push_back(static_cast<std::uint32_t>(row));
      }
    } else if (name == "--set") {
      const auto equals = value.find('=');
      arguments.options[value.substr(0, equals)] = value.substr(equals + 1);
    } else
      throw std::runtime_error("unknown argument " + name);
  }
  return arguments;
}

/// The pack a batch borrows from.
struct Pack {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<dllm::SequenceSlice> sequences;
};

Pack pack(const std::vector<std::vector<std::int32_t>>& sequences) {
  Pack result;
  for (const auto& ids : sequences) {
    dllm::SequenceSlice slice;
    slice.begin = static_cast<std::uint32_t>(result.ids.size());
    slice.length = static_cast<std::uint32_t>(ids.size());
    result.sequences.push_back(slice);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      result.ids.push_back(ids[i]);
      result.positions.push_back(static_cast<std::int32_t>(i));
    }
  }
  return result;
}

void run(Arguments arguments) {
  const dllm::Runtime runtime(
      {.sink = [](dllm::LogLevel, std::string_view component,
                  std::string_view message) { std::cerr << component << ": " << message << '\n'; },
       .plugin_folders = {DLLM_TEST_PLUGINS}});
  const auto file = dllm::GgufFile::open(arguments.model);
  const auto& model_plugin =
      runtime.plugins().require_model(file->get_string("general.architecture"));
  const auto* cpu = runtime.plugins().choose_backend("cpu").backend;
  const auto backend = cpu->create(
      dllm::check_options(cpu->options(), arguments.options, "backend cpu"), runtime.log());
  const auto model = model_plugin.model->load(file, *backend, runtime.log(), {});

  const Pack tokens = pack(arguments.sequences);
  if (arguments.score.empty()) {
    for (std::uint32_t i = 0; i < tokens.ids.size(); ++i) arguments.score.push_back(i);
  }
  const auto n_tokens = static_cast<std::uint32_t>(tokens.ids.size());
  model->reserve({.max_tokens = n_tokens,
                  .max_score_rows = static_cast<std::uint32_t>(arguments.score.size()),
                  .max_sequences = static_cast<std::uint32_t>(tokens.sequences.size()),
                  .max_sequence_length = n_tokens});
  std::vector<float> logits(arguments.score.size() * model->info().n_vocab);
  model->forward_logits(
      {tokens.ids, tokens.positions, tokens.sequences, arguments.score, arguments.raw}, logits);
  std::ofstream out(arguments.out, std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data()),
            static_cast<std::streamsize>(logits.size() * sizeof(float)));
  if (!out.flush()) throw std::runtime_error("cannot write " + arguments.out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
