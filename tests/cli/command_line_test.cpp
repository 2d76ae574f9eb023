// argv rewriting and parsing.
#include "arguments/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_refusal.hpp"

namespace dllm::cli {
namespace {

using Arguments = std::vector<std::string>;

// "key=value" of each assignment, in order.
Arguments parsed(Command command, const Arguments& arguments) {
  Arguments texts;
  for (const Assignment& given : parse_command_line(command, arguments)) {
    texts.push_back(given.key + "=" + given.value);
  }
  return texts;
}

TEST(CommandLine, SysTakesItsOwnValue) {
  EXPECT_EQ(parsed(kRun, {"-sys", "X", "-s", "7"}), (Arguments{"system=X", "seed=7"}));
  EXPECT_EQ(parsed(kRun, {"-sysf", "F"}), Arguments{"system-file=F"});
}

TEST(CommandLine, EqualsAndSpaceGiveTheSame) {
  for (const Arguments& arguments : {Arguments{"--steps=4"},
                                     {"--steps", "4"},
                                     {"--diffusion_steps=4"},
                                     {"--diffusion-steps", "4"}}) {
    EXPECT_EQ(parsed(kRun, arguments), Arguments{"sampler.steps=4"});
  }
  EXPECT_EQ(parsed(kRun, {"-n=5"}), Arguments{"predict=5"});
}

TEST(CommandLine, ValuesMayBeNegativeEmptyOrLookLikeOptions) {
  EXPECT_EQ(parsed(kRun, {"-s", "-1"}), Arguments{"seed=-1"});
  EXPECT_EQ(parsed(kRun, {"-p", ""}), Arguments{"prompt="});
  EXPECT_EQ(parsed(kRun, {"--prompt="}), Arguments{"prompt="});
  EXPECT_EQ(parsed(kRun, {"-p", "-- dashes"}), Arguments{"prompt=-- dashes"});
  EXPECT_EQ(parsed(kRun, {"-p", "--what?"}), Arguments{"prompt=--what?"});
  EXPECT_EQ(parsed(kRun, {"--prompt=--steps"}), Arguments{"prompt=--steps"});
  EXPECT_EQ(parsed(kRun, {"-p", "a=b=c\n"}), Arguments{"prompt=a=b=c\n"});
}

TEST(CommandLine, FlagsTakeNoValueOrTrueAndFalse) {
  EXPECT_EQ(parsed(kRun, {"--json", "-v"}), (Arguments{"json=true", "verbose=true"}));
  EXPECT_EQ(parsed(kRun, {"--json=false"}), Arguments{"json=false"});
  EXPECT_EQ(parsed(kRun, {"--no-chat", "--no-escape"}), (Arguments{"chat=false", "escape=false"}));
  EXPECT_EQ(parsed(kRun, {"--no-chat=false"}), Arguments{"chat=true"});
  expect_refusal([] { parsed(kRun, {"--json=maybe"}); }, {"--json", "maybe", "true | false"});
}

TEST(CommandLine, InspectTakesItsModelAsItIs) {
  EXPECT_EQ(parsed(kInspect, {"m.gguf", "--json"}), (Arguments{"model=m.gguf", "json=true"}));
  EXPECT_EQ(parsed(kInspect, {"--", "-m.gguf"}), Arguments{"model=-m.gguf"});
  expect_refusal([] { parsed(kRun, {"hello"}); }, {"unexpected argument 'hello'", "-p"});
}

TEST(CommandLine, SetAndBackendSetReachPlugins) {
  EXPECT_EQ(parsed(kRun, {"--set", "top-k=3", "--backend-set=isa=avx2"}),
            (Arguments{"sampler.top_k=3", "backend.isa=avx2"}));
  EXPECT_EQ(parsed(kRun, {"--set", "x=a=b"}), Arguments{"sampler.x=a=b"});
  expect_refusal([] { parsed(kRun, {"--set", "steps"}); }, {"--set", "'steps'", "NAME=VALUE"});
  expect_refusal([] { parsed(kRun, {"--set", "=3"}); }, {"NAME=VALUE"});
}

TEST(CommandLine, MisspeltOptionsGetTheNearestMatch) {
  expect_refusal([] { parsed(kRun, {"--stesp", "4"}); }, {"'--stesp'", "'--steps'"});
  expect_refusal([] { parsed(kRun, {"-steps", "4"}); }, {"'-steps'", "'--steps'"});
  expect_refusal([] { parsed(kRun, {"--block-len=4"}); }, {"'--block-len'", "'--block-length'"});
  expect_refusal([] { parsed(kRun, {"-n128"}); }, {"'-n128'", "'-n 128'"});
  expect_refusal([] { parsed(kRun, {"--xyzzy"}); }, {"'--xyzzy'", "dllm run --help"});
}

TEST(CommandLine, MissingValuesAreNamed) {
  expect_refusal([] { parsed(kRun, {"-p"}); }, {"-p lacks its value", "-p TEXT"});
  expect_refusal([] { parsed(kRun, {"-n", "--steps", "4"}); },
                 {"-n lacks its value", "'--steps'", "-n=--steps"});
}

TEST(CommandLine, ValuesAreCheckedWithWhatIsAllowed) {
  expect_refusal([] { parsed(kRun, {"-n", "+-8"}); }, {"-n", "'+-8'"});
  expect_refusal([] { parsed(kRun, {"--temp", "+-0.5"}); }, {"--temp", "'+-0.5'"});
  expect_refusal([] { parsed(kRun, {"-n", "8x"}); }, {"-n", "'8x'", "1 to 2147483647"});
  expect_refusal([] { parsed(kRun, {"-n", "0"}); }, {"-n", "'0'", "1 to 2147483647"});
  expect_refusal([] { parsed(kRun, {"-n", "-1"}); }, {"-n", "'-1'"});
  expect_refusal([] { parsed(kRun, {"-n", "2147483648"}); }, {"-n", "'2147483648'"});
  expect_refusal([] { parsed(kRun, {"-t", "0"}); }, {"-t", "'0'", "an integer of at least 1"});
  expect_refusal([] { parsed(kRun, {"--temp", "nan"}); }, {"--temp", "'nan'", "at least 0"});
  expect_refusal([] { parsed(kRun, {"--temp", "abc"}); }, {"--temp", "'abc'"});
  expect_refusal([] { parsed(kRun, {"--top-p", "0"}); }, {"--top-p", "above 0 to 1"});
  expect_refusal([] { parsed(kRun, {"--top-p", "1.5"}); }, {"--top-p", "'1.5'"});
  expect_refusal([] { parsed(kRun, {"--seed", "-2"}); }, {"--seed", "'-2'"});
  expect_refusal([] { parsed(kRun, {"--normalize", "nfc"}); }, {"'nfc'", "reference | none"});
  expect_refusal([] { parsed(kRun, {"-m", ""}); }, {"-m", "no path"});
}

TEST(CommandLine, OptionsOfOtherCommandsAreNamedAsSuch) {
  expect_refusal([] { parsed(kTokenize, {"--steps", "4"}); }, {"--steps", "tokenize", "run"});
  expect_refusal([] { parsed(kPlugins, {"-m", "x"}); }, {"-m", "plugins", "inspect"});
}

TEST(CommandLine, GumbelNoiseIsTakenWhenOnAndRefusedWhenOff) {
  EXPECT_EQ(parsed(kRun, {"--diffusion-add-gumbel-noise", "1"}), Arguments{});
  expect_refusal([] { parsed(kRun, {"--diffusion-add-gumbel-noise", "0"}); },
                 {"--diffusion-add-gumbel-noise", "--temp 0"});
}

}  // namespace
}  // namespace dllm::cli
