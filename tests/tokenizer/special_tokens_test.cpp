// Which ids mean what, which may come from user text, and metadata that lies about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "expect_error.hpp"
#include "vocabularies.hpp"

namespace dllm::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr EncodeOptions kParse{.parse_special = true};

const std::vector<std::string> kSteering{"<|startoftext|>",
                                         "<|endoftext|>",
                                         "<|mdm_mask|>",
                                         "<|start_header_id|>",
                                         "<|end_header_id|>",
                                         "<|eot_id|>",
                                         "<|im_start|>",
                                         "<|im_end|>",
                                         "<role>",
                                         "</role>",
                                         "<|role_end|>",
                                         "<pad>"};

struct Steering {
  SmallVocabulary vocabulary;
  Ids ids;
};

// All steering tokens with one type; bos, eos, mask and pad by key.
Steering steering_tokens(TokenType type) {
  Steering out;
  for (const std::string& text : kSteering) out.ids.push_back(out.vocabulary.add(text, type));
  const auto set = [&](const char* name, std::size_t i) {
    out.vocabulary.more.set(std::string("tokenizer.ggml.") + name,
                            static_cast<std::uint32_t>(out.ids[i]));
  };
  set("bos_token_id", 0);
  set("eos_token_id", 1);
  set("mask_token_id", 2);
  set("padding_token_id", 11);
  return out;
}

TEST(SpecialTokens, UserTextNeverGivesASteeringTokenWhateverItsType) {
  for (const TokenType type : {TokenType::undefined, TokenType::normal, TokenType::unknown,
                               TokenType::control, TokenType::user_defined}) {
    for (const std::string pre : {"qwen2", "llama-bpe"}) {  // llama-bpe looks whole pieces up
      Steering steering = steering_tokens(type);
      steering.vocabulary.pre = pre;
      steering.vocabulary.more.set("tokenizer.ggml.add_bos_token", false);
      const Tokenizer tokenizer = steering.vocabulary.make();
      for (const std::string& text : kSteering) {
        EXPECT_EQ(tokenizer.encode(text, {}), byte_ids(text)) << static_cast<int>(type);
      }
      std::string all;
      for (const std::string& text : kSteering) all += text;
      EXPECT_EQ(tokenizer.encode(all, kParse), steering.ids) << static_cast<int>(type);
    }
  }
}

TEST(SpecialTokens, WithoutTypesInTheFileSteeringTokensAreStillSpecial) {
  Steering steering = steering_tokens(TokenType::normal);
  steering.vocabulary.with_types = false;
  const Tokenizer tokenizer = steering.vocabulary.make();
  EXPECT_EQ(tokenizer.encode("<|mdm_mask|>", {}), byte_ids("<|mdm_mask|>"));
  EXPECT_EQ(tokenizer.encode("<|mdm_mask|>", kParse), Ids{steering.ids[2]});
  EXPECT_EQ(tokenizer.decode(steering.ids), "");
  EXPECT_EQ(tokenizer.type(steering.ids[1]), TokenType::control);
  EXPECT_EQ(tokenizer.type('a'), TokenType::normal);
}

// A merge may lead to a token that the mask id names.
TEST(SpecialTokens, MaskThatIsAWordIsWrittenByteByByte) {
  SmallVocabulary vocabulary;
  const std::int32_t word = vocabulary.merge("n", "o");
  EXPECT_EQ(vocabulary.make().encode("no", {}), Ids{word});
  const TokenizerOptions options{.normalization = Normalization::reference, .mask_id = word};
  EXPECT_EQ(vocabulary.make(options).encode("no", {}), byte_ids("no"));
}

TEST(SpecialTokens, MaskThatIsTheOnlyTokenOfAByteRefusesTextWithThatByte) {
  SmallVocabulary vocabulary;
  vocabulary.more.set("tokenizer.ggml.mask_token_id", std::uint32_t{5});
  const Tokenizer tokenizer = vocabulary.make();
  EXPECT_EQ(tokenizer.require_mask(), 5);
  EXPECT_EQ(tokenizer.encode("fine", {}), byte_ids("fine"));
  expect_error([&] { tokenizer.encode("a\x05", {}); }, ErrorCode::bad_usage,
               AllOf(HasSubstr("byte 1 of the text is 0x05"), HasSubstr("--mask-id")));
}

TEST(SpecialTokens, HarmlessUserDefinedTokensComeFromPlainText) {
  SmallVocabulary vocabulary;
  const std::int32_t call = vocabulary.add("<tool_call>", TokenType::user_defined);
  const std::int32_t image = vocabulary.add("<|image|>", TokenType::control);
  const std::int32_t unknown = vocabulary.add("<unk>", TokenType::unknown);
  const Tokenizer tokenizer = vocabulary.make();
  EXPECT_EQ(tokenizer.encode("a<tool_call>b", {}), (Ids{'a', call, 'b'}));
  EXPECT_EQ(tokenizer.encode("<|image|>", {}), byte_ids("<|image|>"));
  EXPECT_EQ(tokenizer.encode("<|image|><unk>", kParse), (Ids{image, unknown}));
}

TEST(SpecialTokens, LeftmostThenLongest) {
  SmallVocabulary vocabulary;
  const std::int32_t open = vocabulary.add("<a", TokenType::user_defined);
  const std::int32_t whole = vocabulary.add("<ab>", TokenType::user_defined);
  const std::int32_t tail = vocabulary.add("b>cd", TokenType::user_defined);
  const Tokenizer tokenizer = vocabulary.make();
  EXPECT_EQ(tokenizer.encode("<ab>cd", {}), (Ids{whole, 'c', 'd'}));
  EXPECT_EQ(tokenizer.encode("<ax", {}), (Ids{open, 'x'}));
  EXPECT_EQ(tokenizer.encode("xb>cd<a", {}), (Ids{'x', tail, open}));
}

TEST(SpecialTokens, OnesOfManyBytesAreFoundUpToFourMebibytesTogether) {
  SmallVocabulary vocabulary;
  const std::string text(std::size_t{1} << 20, 'x');
  const std::int32_t id = vocabulary.add(text, TokenType::user_defined);
  EXPECT_EQ(vocabulary.make().encode(text, {}), (Ids{id}));
  for (int i = 1; i < 4; ++i) vocabulary.add(text, TokenType::control);
  vocabulary.add("y", TokenType::control);
  expect_error([&] { vocabulary.make(); }, ErrorCode::unsupported,
               AllOf(HasSubstr("special tokens have 4194305 bytes together, at most 4194304"),
                     HasSubstr("tokenizer.ggml.tokens"), HasSubstr("convert")));
}

TEST(SpecialTokens, ManyTokensInLongTextEndInTime) {
  SmallVocabulary vocabulary;
  for (int i = 0; i < 50000; ++i)
    vocabulary.add("<|t" + std::to_string(i) + "|>", TokenType::control);
  std::string text;
  while (text.size() < 1 << 20) text += "<|t49999|<|t";
  EXPECT_EQ(vocabulary.make().encode(text, kParse).size(), text.size());
}

// Whole encodings, with tokens that a search place by place would compare over and over.
TEST(SpecialTokens, MegabytesMadeForTheTokensEndInTime) {
  const std::string text(1 << 20, 'a');
  SmallVocabulary vocabulary;
  for (std::size_t i = 0; i < 100; ++i) {
    vocabulary.add(std::string(4000, 'a') + std::to_string(i), TokenType::user_defined);
    vocabulary.add(std::string(i, '<') + ">", TokenType::control);
  }
  const Tokenizer tokenizer = vocabulary.make();
  EXPECT_EQ(tokenizer.encode(text, {}).size(), text.size());
  const std::string open(1 << 20, '<');
  EXPECT_EQ(tokenizer.encode(open, kParse).size(), open.size());
}

TEST(SpecialTokens, StopIdsAreEosEotAndKnownEndMarkers) {
  SmallVocabulary vocabulary;
  const std::int32_t end = vocabulary.add("<|endoftext|>", TokenType::control);
  const std::int32_t turn = vocabulary.add("<|im_end|>", TokenType::control);
  const std::int32_t custom = vocabulary.add("<stop>", TokenType::control);
  vocabulary.more.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(custom));
  const Tokenizer by_text = vocabulary.make();
  EXPECT_THAT(by_text.stop_ids(), ElementsAre(end, turn, custom));
  EXPECT_EQ(by_text.special().eot, turn);
  vocabulary.more.set("tokenizer.ggml.eot_token_id", std::uint32_t{'$'});
  const Tokenizer by_key = vocabulary.make();
  EXPECT_THAT(by_key.stop_ids(), ElementsAre('$', end, turn, custom));
  EXPECT_EQ(by_key.special().eot, '$');
}

TEST(SpecialTokens, AbsentIdsAreMinusOneAndAMissingMaskIsNamedWhenAskedFor) {
  const Tokenizer tokenizer = SmallVocabulary().make();
  const SpecialIds& ids = tokenizer.special();
  EXPECT_THAT((Ids{ids.bos, ids.eos, ids.eot, ids.pad, ids.mask}), Each(-1));
  EXPECT_TRUE(tokenizer.stop_ids().empty());
  expect_error([&] { tokenizer.require_mask(); }, ErrorCode::bad_file,
               AllOf(HasSubstr("tokenizer.ggml.mask_token_id"), HasSubstr("--mask-id")));
}

TEST(SpecialTokens, IdsOutsideTheVocabularyAreRefusedNamingKeyAndBothNumbers) {
  for (const std::string name :
       {"bos", "eos", "eot", "eom", "padding", "mask", "unknown", "seperator"}) {
    SmallVocabulary vocabulary;
    vocabulary.more.set("tokenizer.ggml." + name + "_token_id", std::uint32_t{256});
    expect_error(
        [&] { vocabulary.make(); }, ErrorCode::bad_file,
        AllOf(HasSubstr("tokenizer.ggml." + name + "_token_id is 256"), HasSubstr("256 tokens")));
  }
}

TEST(SpecialTokens, MaskIdOptionOverridesTheFileEvenWhereTheFileIsWrong) {
  SmallVocabulary vocabulary;
  vocabulary.more.set("tokenizer.ggml.mask_token_id", std::uint32_t{999});
  const auto with_mask = [](std::int32_t id) {
    return TokenizerOptions{.normalization = Normalization::reference, .mask_id = id};
  };
  EXPECT_EQ(vocabulary.make(with_mask(7)).require_mask(), 7);
  for (const std::int32_t id : {-1, 256}) {
    expect_error([&] { vocabulary.make(with_mask(id)); }, ErrorCode::bad_usage,
                 AllOf(HasSubstr("--mask-id is " + std::to_string(id)), HasSubstr("0 to 255")));
  }
}

TEST(SpecialTokens, IntegersOfAnyWidthThatFitAreRead) {
  SmallVocabulary vocabulary;
  vocabulary.more.set("tokenizer.ggml.bos_token_id", std::uint64_t{1})
      .set("tokenizer.ggml.eos_token_id", std::uint8_t{2})
      .set("tokenizer.ggml.mask_token_id", std::int32_t{3});
  const SpecialIds ids = vocabulary.make().special();
  EXPECT_EQ((Ids{ids.bos, ids.eos, ids.mask}), (Ids{1, 2, 3}));
}

TEST(SpecialTokens, BosAndEosAreAddedAsTheFileSaysAndNeverTwice) {
  Steering steering = steering_tokens(TokenType::control);
  const std::int32_t bos = steering.ids[0];
  const std::int32_t eos = steering.ids[1];
  EXPECT_EQ(steering.vocabulary.make().encode("a", {}), Ids{'a'});
  steering.vocabulary.more.set("tokenizer.ggml.add_bos_token", true)
      .set("tokenizer.ggml.add_eos_token", true);
  const Tokenizer tokenizer = steering.vocabulary.make();
  EXPECT_EQ(tokenizer.encode("a", {}), (Ids{bos, 'a', eos}));
  EXPECT_EQ(tokenizer.encode("", {}), (Ids{bos, eos}));
  EXPECT_EQ(tokenizer.encode("<|startoftext|>a", kParse), (Ids{bos, 'a', eos}));
}

TEST(SpecialTokens, LlamaBpeAddsBosByDefault) {
  Steering steering = steering_tokens(TokenType::control);
  steering.vocabulary.pre = "llama-bpe";
  EXPECT_EQ(steering.vocabulary.make().encode("a", {}), (Ids{steering.ids[0], 'a'}));
}

TEST(SpecialTokens, AddingATokenThatTheFileDoesNotNameIsRefused) {
  for (const std::string name : {"bos", "eos"}) {
    SmallVocabulary vocabulary;
    vocabulary.more.set("tokenizer.ggml.add_" + name + "_token", true);
    expect_error([&] { vocabulary.make(); }, ErrorCode::bad_file,
                 AllOf(HasSubstr("add_" + name + "_token is true"), HasSubstr(name + "_token_id")));
  }
}

GgufWriter with(GgufWriter writer, const GgufWriter& keys) {
  for (const auto& entry : keys.entries) {
    std::erase_if(writer.entries, [&](const auto& old) { return old.key == entry.key; });
    writer.entries.push_back(entry);
  }
  return writer;
}

void expect_refused(const GgufWriter& keys, ErrorCode code,
                    const testing::Matcher<std::string>& message) {
  const TemporaryDirectory folder;
  with(SmallVocabulary().writer(), keys).write(folder.path() / "broken.gguf");
  expect_error([&] { load(folder.path() / "broken.gguf"); }, code, message);
}

TEST(TokenizerMetadata, ArraysThatDoNotFitTheTokensAreRefused) {
  const auto refused = [](const GgufWriter& keys, const testing::Matcher<std::string>& message) {
    expect_refused(keys, ErrorCode::bad_file, message);
  };
  refused(GgufWriter().set_array("tokenizer.ggml.token_type", std::vector<std::int32_t>(255, 1)),
          AllOf(HasSubstr("token_type has 255"), HasSubstr("256")));
  refused(GgufWriter().set_array("tokenizer.ggml.token_type", std::vector<std::int32_t>(256, 7)),
          AllOf(HasSubstr("token 0 has type 7")));
  refused(GgufWriter().set_array("tokenizer.ggml.token_type", std::vector<std::string>(256, "x")),
          AllOf(HasSubstr("tokenizer.ggml.token_type"), HasSubstr("string")));
  refused(GgufWriter().set_array("tokenizer.ggml.scores", std::vector<float>(3, 0.0F)),
          AllOf(HasSubstr("scores has 3"), HasSubstr("256")));
  refused(GgufWriter().set_array("tokenizer.ggml.tokens", std::vector<std::int32_t>{1, 2}),
          HasSubstr("tokenizer.ggml.tokens"));
  refused(GgufWriter().set_array("tokenizer.ggml.tokens", std::vector<std::string>{}),
          HasSubstr("tokenizer.ggml.tokens"));
}

TEST(TokenizerMetadata, ScoresAndUnsignedTypesAreAccepted) {
  const TemporaryDirectory folder;
  with(SmallVocabulary().writer(),
       GgufWriter()
           .set_array("tokenizer.ggml.scores", std::vector<float>(256, 0.0F))
           .set_array("tokenizer.ggml.token_type", std::vector<std::uint8_t>(256, 1)))
      .write(folder.path() / "scores.gguf");
  EXPECT_EQ(load(folder.path() / "scores.gguf").encode("a", {}), Ids{'a'});
}

TEST(TokenizerMetadata, OtherTokenizerModelsAreRefusedByName) {
  for (const std::string model : {"gemma4", "llama", "t5"}) {
    expect_refused(GgufWriter().set("tokenizer.ggml.model", model), ErrorCode::unsupported,
                   AllOf(HasSubstr("\"" + model + "\""), HasSubstr("gpt2")));
  }
  const TemporaryDirectory folder;
  GgufWriter().set("general.architecture", "llada").write(folder.path() / "bare.gguf");
  expect_error([&] { load(folder.path() / "bare.gguf"); }, ErrorCode::bad_file,
               HasSubstr("tokenizer.ggml.model"));
}

TEST(TokenizerDecode, EachTypePrintsAsItShould) {
  SmallVocabulary vocabulary;
  const std::int32_t control = vocabulary.add("<|c|>", TokenType::control);
  const std::int32_t user =
      vocabulary.add("\u0120x\u00E9", TokenType::user_defined);  // no byte alphabet
  const std::int32_t unused = vocabulary.add("[PAD7]", TokenType::unused);
  const std::int32_t byte = vocabulary.add("<0xFE>", TokenType::byte);
  const std::int32_t outside =
      vocabulary.add("\u4E2D\u0120", TokenType::normal);  // half in the alphabet
  const Tokenizer tokenizer = vocabulary.make();
  EXPECT_EQ(tokenizer.decode(Ids{'a', control, 'b'}), "ab");
  EXPECT_EQ(tokenizer.decode(Ids{'a', control, 'b'}, true), "a<|c|>b");
  EXPECT_EQ(tokenizer.decode(Ids{user}), "\u0120x\u00E9");
  EXPECT_EQ(tokenizer.decode(Ids{unused}, true), "");
  EXPECT_EQ(tokenizer.decode(Ids{byte}), "\xFE");
  EXPECT_EQ(tokenizer.decode(Ids{outside}), "\u4E2D ");
  EXPECT_EQ(tokenizer.piece(unused), "[PAD7]");
  EXPECT_EQ(tokenizer.piece(control), "<|c|>");
  EXPECT_EQ(tokenizer.n_tokens(), 261U);
}

// Found by the fuzz target vocabulary: such tokens decode as nothing, so texts lost what they stand
// for.
TEST(TokenizerRoundTrip, TextSurvivesHiddenTokensThatAreAllAByteHasOrThatMergesMake) {
  for (const TokenType type : {TokenType::control, TokenType::unknown, TokenType::unused}) {
    SmallVocabulary vocabulary;
    vocabulary.bytes['A'] = "AA";
    vocabulary.add("A", type);
    vocabulary.add("xy", type);
    vocabulary.merge("x", "y");
    const Tokenizer tokenizer = vocabulary.make();
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("A xy", {})), "A xy");
  }
}

TEST(TokenizerDecode, IdsOutsideTheVocabularyAreRefused) {
  const Tokenizer tokenizer = SmallVocabulary().make();
  for (const std::int32_t id : {-1, 256, 1 << 30}) {
    const auto message =
        AllOf(HasSubstr("token id " + std::to_string(id)), HasSubstr("256 tokens"));
    expect_error([&] { tokenizer.decode(Ids{0, id}); }, ErrorCode::bad_usage, message);
    expect_error([&] { tokenizer.piece(id); }, ErrorCode::bad_usage, message);
    expect_error([&] { tokenizer.type(id); }, ErrorCode::bad_usage, message);
  }
}

}  // namespace
}  // namespace dllm::test
