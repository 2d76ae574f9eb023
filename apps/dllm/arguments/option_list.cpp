#include <array>

#include "arguments/option_table.hpp"

namespace dllm::cli {
namespace {

constexpr unsigned kDecodes = kRun | kBench | kReplay;  // with a sampler's options
constexpr unsigned kLoads = kRun | kLogits | kBench;
constexpr unsigned kPrompts = kRun | kTokenize | kLogits | kBench;

// Values that fit a 32-bit count of tokens. Of an option of the sampler or the backend, that plugin
// says the largest.
constexpr double kMaxCount = 2147483647.0;

// clang-format off: a field a line would make a table nobody can survey
constexpr std::array kOptions = std::to_array<OptionSpec>({
    // model
    {.name = "model", .spellings = "-m", .value_name = "FILE", .help = "GGUF model file",
     .group = Group::model, .commands = kPrompts | kInspect, .is_path = true},
    {.name = "mask-id", .value_name = "ID", .help = "mask token, instead of the file's own",
     .group = Group::model, .commands = kPrompts, .type = OptionType::integer, .minimum = 0,
     .maximum = kMaxCount},
    {.name = "normalize", .value_name = "HOW",
     .help = "reference: NFC as the original does; none", .group = Group::model,
     .commands = kPrompts, .type = OptionType::choice, .choices = "reference none",
     .default_value = "reference"},

    // prompt
    {.name = "prompt", .spellings = "-p", .value_name = "TEXT", .help = "the prompt",
     .group = Group::prompt, .commands = kPrompts, .alternatives = "prompt"},
    {.name = "file", .spellings = "-f", .value_name = "FILE",
     .help = "prompt from a file; -: standard input", .group = Group::prompt, .commands = kPrompts,
     .is_path = true, .alternatives = "prompt"},
    {.name = "tokens", .value_name = "IDS", .help = "token ids instead of a prompt: \"1,2,3\"",
     .group = Group::prompt, .commands = kLogits, .alternatives = "prompt"},
    {.name = "decode", .value_name = "IDS", .help = "print the text of these ids: \"1,2,3\"",
     .group = Group::prompt, .commands = kTokenize, .alternatives = "prompt"},
    {.name = "system", .spellings = "-sys --system-prompt", .value_name = "TEXT",
     .help = "system message", .group = Group::prompt, .commands = kPrompts,
     .alternatives = "system"},
    {.name = "system-file", .spellings = "-sysf --system-prompt-file", .value_name = "FILE",
     .help = "system message from a file", .group = Group::prompt, .commands = kPrompts,
     .is_path = true, .alternatives = "system"},
    {.name = "escape", .spellings = "-e",
     .help = "\\n \\t \\\\ \\\" \\' \\r \\xHH in -p and -sys (default on)",
     .group = Group::prompt, .commands = kPrompts, .type = OptionType::boolean,
     .default_value = "true"},
    {.name = "chat", .help = "the model's chat format, not the bare text (default on)",
     .group = Group::prompt, .commands = kPrompts, .type = OptionType::boolean,
     .default_value = "true"},
    {.name = "parse-special", .help = "let the text contain special tokens", .group = Group::prompt,
     .commands = kPrompts, .type = OptionType::boolean, .default_value = "false"},

    // generation
    {.name = "predict", .spellings = "-n --n-predict", .value_name = "N",
     .help = "tokens to generate", .group = Group::generation, .commands = kRun,
     .type = OptionType::integer, .minimum = 1, .maximum = kMaxCount, .default_value = "128"},
    {.name = "seed", .spellings = "-s", .value_name = "N",
     .help = "-1: drawn, and reported (replay: the recorded one)", .group = Group::generation,
     .commands = kDecodes, .type = OptionType::integer, .minimum = -1,
     .maximum = 9007199254740991.0, .default_value = "-1"},
    {.name = "ignore-eos", .help = "do not end at an end token", .group = Group::generation,
     .commands = kRun, .type = OptionType::boolean, .default_value = "false"},

    // decoding
    {.name = "sampler", .value_name = "NAME",
     .help = "decoding rule; auto: model's (replay: recorded)",
     .group = Group::decoding, .commands = kDecodes, .default_value = "auto"},
    {.name = "preset", .value_name = "NAME",
     .help = "values the sampler names, such as reference",
     .group = Group::decoding, .commands = kDecodes, .default_value = "default"},
    {.name = "steps", .spellings = "--diffusion-steps", .value_name = "N",
     .help = "denoising steps in all", .group = Group::decoding, .commands = kDecodes,
     .type = OptionType::integer, .minimum = 1, .owner = Owner::sampler},
    {.name = "block-length", .spellings = "--diffusion-block-length", .value_name = "N",
     .help = "positions decoded together", .group = Group::decoding, .commands = kDecodes,
     .type = OptionType::integer, .minimum = 1, .owner = Owner::sampler},
    {.name = "temperature", .spellings = "--temp", .value_name = "T", .help = "0: greedy",
     .group = Group::decoding, .commands = kDecodes, .type = OptionType::number, .minimum = 0,
     .owner = Owner::sampler},
    {.name = "top-k", .value_name = "K", .help = "0: off", .group = Group::decoding,
     .commands = kDecodes, .type = OptionType::integer, .minimum = 0, .owner = Owner::sampler},
    {.name = "top-p", .value_name = "P", .help = "1: off", .group = Group::decoding,
     .commands = kDecodes, .type = OptionType::number, .minimum = 0, .maximum = 1,
     .minimum_exclusive = true, .owner = Owner::sampler},
    {.name = "remasking", .value_name = "RULE", .help = "LLaDA: low_confidence | random",
     .group = Group::decoding, .commands = kDecodes, .owner = Owner::sampler},
    {.name = "algorithm", .spellings = "--diffusion-algorithm", .value_name = "RULE",
     .help = "Dream: origin | maskgit_plus | topk_margin | entropy", .group = Group::decoding,
     .commands = kDecodes, .owner = Owner::sampler},
    {.name = "alg-temp", .spellings = "--diffusion-alg-temp", .value_name = "T",
     .help = "randomness in the choice of positions", .group = Group::decoding, .commands = kDecodes,
     .type = OptionType::number, .minimum = 0, .owner = Owner::sampler},
    {.name = "eps", .spellings = "--diffusion-eps", .value_name = "E",
     .help = "end of the time schedule", .group = Group::decoding, .commands = kDecodes,
     .type = OptionType::number, .minimum = 0, .maximum = 1, .owner = Owner::sampler},
    {.name = "cfg-scale", .spellings = "--diffusion-cfg-scale", .value_name = "W",
     .help = "guidance; 0: off", .group = Group::decoding, .commands = kDecodes,
     .type = OptionType::number, .owner = Owner::sampler},
    {.name = "diffusion-add-gumbel-noise", .value_name = "X",
     .help = "accepted when on: temperature here always draws with Gumbel noise",
     .group = Group::decoding, .commands = kDecodes, .type = OptionType::number, .minimum = 0,
     .command_line_only = true},
    {.name = "set", .value_name = "NAME=VALUE", .help = "any option of the sampler; repeatable",
     .group = Group::decoding, .commands = kDecodes | kCheckPlugin, .repeatable = true,
     .command_line_only = true},

    // bench
    {.name = "canvas", .value_name = "N", .help = "positions of a step: prompt and what is filled",
     .group = Group::bench, .commands = kBench, .type = OptionType::integer, .minimum = 1,
     .maximum = kMaxCount, .default_value = "160"},
    {.name = "repeat", .spellings = "--repetitions", .value_name = "R",
     .help = "runs of all steps; median, least and most are told", .group = Group::bench,
     .commands = kBench, .type = OptionType::integer, .minimum = 1, .maximum = 100000,
     .default_value = "3"},
    {.name = "warmup", .value_name = "N", .help = "steps before the measured ones",
     .group = Group::bench, .commands = kBench, .type = OptionType::integer, .minimum = 0,
     .maximum = 100000, .default_value = "1"},
    {.name = "asked-rows", .help = "score what the sampler asks for, as run does, not every row",
     .group = Group::bench, .commands = kBench, .type = OptionType::boolean,
     .default_value = "false"},
    {.name = "peak", .help = "measure what the machine can do, too (default on)",
     .group = Group::bench, .commands = kBench, .type = OptionType::boolean,
     .default_value = "true"},
    {.name = "compare", .value_name = "FILE", .help = "ratios to an older result (--json > FILE)",
     .group = Group::bench, .commands = kBench, .is_path = true},
    {.name = "trace", .value_name = "FILE", .help = "a step as a Chrome trace (Perfetto)",
     .group = Group::bench, .commands = kBench, .is_path = true},

    // output
    {.name = "json", .help = "exactly one JSON value on standard output", .group = Group::output,
     .type = OptionType::boolean, .default_value = "false"},
    {.name = "visual", .spellings = "--diffusion-visual",
     .help = "show the canvas resolving, on standard error", .group = Group::output,
     .commands = kRun, .type = OptionType::boolean, .default_value = "false"},
    {.name = "dump-step-stats", .value_name = "FILE", .help = "a JSON line per step to a file",
     .group = Group::output, .commands = kRun, .is_path = true},
    {.name = "record", .value_name = "FILE",
     .help = "plans, statistics and edits to a file, for `dllm replay`", .group = Group::output,
     .commands = kRun, .is_path = true},
    {.name = "recording", .value_name = "FILE", .help = "what `dllm run --record` wrote",
     .group = Group::decoding, .commands = kReplay, .is_path = true, .command_line_only = true},
    {.name = "rows", .value_name = "ROWS", .help = "rows to write: \"0,5,7\"; all without it",
     .group = Group::output, .commands = kLogits},
    {.name = "out", .value_name = "FILE", .help = "x.npy: NumPy, else raw little-endian f32",
     .group = Group::output, .commands = kLogits, .is_path = true},
    {.name = "verbose", .spellings = "-v", .help = "more on standard error", .group = Group::output,
     .type = OptionType::boolean, .default_value = "false"},

    // work
    {.name = "backend", .value_name = "NAME", .help = "device plugin; auto: the best usable one",
     .group = Group::work, .commands = kLoads, .default_value = "auto"},
    {.name = "threads", .spellings = "-t", .value_name = "N", .help = "processor threads",
     .group = Group::work, .commands = kLoads, .type = OptionType::integer, .minimum = 1,
     .owner = Owner::backend},
    {.name = "gpu-memory", .value_name = "GIB",
     .help = "GPU memory to stay below, others' included; 0: all that is free",
     .group = Group::work, .commands = kLoads, .type = OptionType::number, .minimum = 0,
     .owner = Owner::backend},
    {.name = "backend-set", .value_name = "NAME=VALUE",
     .help = "any option of the backend; repeatable", .group = Group::work, .commands = kLoads,
     .repeatable = true, .command_line_only = true},
    {.name = "full-logits", .help = "score every position, as a generic runtime would",
     .group = Group::work, .commands = kRun, .type = OptionType::boolean, .default_value = "false"},
    {.name = "list-devices", .help = "what the backends find here, then end", .group = Group::work,
     .commands = kLoads, .type = OptionType::boolean, .default_value = "false",
     .command_line_only = true},

    // plugins and settings
    {.name = "plugin", .value_name = "FILE", .help = "the plugin's .so file",
     .group = Group::plugins, .commands = kCheckPlugin, .is_path = true,
     .command_line_only = true},
    {.name = "rule", .value_name = "RULE", .help = "try this rule only; repeatable",
     .group = Group::plugins, .commands = kCheckPlugin, .repeatable = true,
     .command_line_only = true},
    {.name = "name", .value_name = "NAME", .help = "what --sampler will call it",
     .group = Group::plugins, .commands = kNewSampler, .command_line_only = true},
    {.name = "folder", .value_name = "DIR", .help = "where to write it; sampler_NAME without it",
     .group = Group::plugins, .commands = kNewSampler, .is_path = true, .command_line_only = true},
    {.name = "plugin-dir", .value_name = "DIR", .help = "search plugins here first; repeatable",
     .group = Group::plugins, .commands = kLoads | kPlugins | kReplay, .repeatable = true,
     .is_path = true},
    {.name = "config", .value_name = "FILE", .help = "options from a file; repeatable, later wins",
     .group = Group::settings, .repeatable = true, .is_path = true, .command_line_only = true},
    {.name = "print-config", .help = "print every value with its origin, then end",
     .group = Group::settings, .type = OptionType::boolean, .default_value = "false",
     .command_line_only = true},
    {.name = "help", .spellings = "-h", .help = "this text", .group = Group::settings,
     .type = OptionType::boolean, .default_value = "false", .command_line_only = true},
    {.name = "version", .help = "the version, then end", .group = Group::settings,
     .type = OptionType::boolean, .default_value = "false", .command_line_only = true},
});
// clang-format on

}  // namespace

std::span<const OptionSpec> option_table() { return kOptions; }

}  // namespace dllm::cli
