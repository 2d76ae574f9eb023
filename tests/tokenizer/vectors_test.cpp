// Ids equal to the reference tokenizers' on real vocabularies. data/README.md says where the
// vectors come from. Columns: "reference" is Hugging Face tokenizers (NFC), "none" the same without
// NFC, which is what GGUF runtimes do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dllm/display_text.hpp"
#include "vocabularies.hpp"

namespace dllm::test {
namespace {

using nlohmann::json;

constexpr TokenizerOptions kNoNfc{.normalization = Normalization::none, .mask_id = std::nullopt};
constexpr EncodeOptions kParse{.parse_special = true};

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_FALSE(out.str().empty()) << path;
  return out.str();
}

json qwen_vectors() { return json::parse(read_text(data_path("qwen.json"))); }

// The ids of a column, which falls back on "qwen2.5" where they are the same.
Ids expected_ids(const json& vector, const std::string& column) {
  return vector.value(column, vector.at("qwen2.5")).get<Ids>();
}

void expect_column(const std::string& vocabulary, TokenizerOptions options,
                   const std::string& column) {
  const Tokenizer tokenizer = load(made_path(vocabulary), options);
  const json vectors = qwen_vectors();
  ASSERT_EQ(vectors.size(), 467U);
  for (const json& vector : vectors) {
    EXPECT_EQ(tokenizer.encode(vector.at("text").get<std::string>(), kParse),
              expected_ids(vector, column))
        << vocabulary << ", " << vector.at("name");
  }
}

TEST(TokenizerVectors, Qwen25MatchesHuggingFace) { expect_column("qwen2.5.gguf", {}, "qwen2.5"); }
TEST(TokenizerVectors, Qwen25WithoutNfc) { expect_column("qwen2.5.gguf", kNoNfc, "no_nfc"); }
TEST(TokenizerVectors, Qwen3MatchesHuggingFace) { expect_column("qwen3.gguf", {}, "qwen3"); }
TEST(TokenizerVectors, DreamMatchesHuggingFace) { expect_column("dream.gguf", {}, "dream"); }
// The same split as qwen2's, so the same ids over the same vocabulary. No real LLaDA vocabulary was
// to be had: this holds the pattern, not a LLaDA model's ids.
TEST(TokenizerVectors, BailingmoeOverTheSameVocabulary) {
  expect_column("dream-bailingmoe.gguf", {}, "dream");
}
TEST(TokenizerVectors, LladaMoeOverTheSameVocabulary) {
  expect_column("dream-llada-moe.gguf", {}, "dream");
}

TEST(TokenizerVectors, DecodeGivesTheTextBackOrItsNfcForm) {
  const Tokenizer tokenizer = load(made_path("qwen2.5.gguf"));
  for (const json& vector : qwen_vectors()) {
    const auto text = vector.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.decode(vector.at("qwen2.5").get<Ids>(), true),
              vector.value("decoded", text))
        << vector.at("name");
  }
}

TEST(TokenizerVectors, FourThousandRandomTextsMatchHuggingFace) {
  const Tokenizer tokenizer = load(made_path("dream.gguf"));
  std::istringstream lines(read_text(made_path("qwen-fuzz-dream.jsonl")));
  std::size_t n = 0;
  for (std::string line; std::getline(lines, line); ++n) {
    const json vector = json::parse(line);
    EXPECT_EQ(tokenizer.encode(vector.at("text").get<std::string>(), kParse),
              vector.at("dream").get<Ids>())
        << vector.at("name");
  }
  EXPECT_EQ(n, 4000U);
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(TokenizerVectors, DecodesToExactBytesAndToTheReferencesLossyText) {
  const Tokenizer tokenizer = load(made_path("dream.gguf"));
  const json vectors = json::parse(read_text(data_path("decode-dream.json")));
  ASSERT_EQ(vectors.size(), 300U);
  for (const json& vector : vectors) {
    const auto ids = vector.at("ids").get<Ids>();
    EXPECT_EQ(tokenizer.decode(ids, true), bytes_of_hex(vector.at("bytes_hex")));
    EXPECT_EQ(replace_invalid_utf8(tokenizer.decode(ids, true)), vector.at("hf_text"));
    EXPECT_EQ(final_text(tokenizer, ids), vector.at("hf_text_skip_special"));
  }
}

// Unicode tables of another age give other ids here: PCRE2 10.42 has Unicode 14 and calls U+180E
// white space.
TEST(TokenizerVectors, UnicodeFifteenLettersDigitsAndSpacesMatchHuggingFace) {
  const Tokenizer reference = load(made_path("qwen3.gguf"));
  const Tokenizer plain = load(made_path("qwen3.gguf"), kNoNfc);
  const json vectors = json::parse(read_text(data_path("unicode-15.json")));
  ASSERT_EQ(vectors.size(), 240U);
  for (const json& vector : vectors) {
    const auto text = vector.at("text").get<std::string>();
    EXPECT_EQ(reference.encode(text, kParse), vector.at("reference").get<Ids>()) << vector.dump();
    EXPECT_EQ(plain.encode(text, kParse), vector.at("none").get<Ids>()) << vector.dump();
  }
}

std::vector<std::string> split_text(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find(separator, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

TEST(TokenizerVectors, LlamaCppsOwnVectorsWithoutNfc) {
  const Tokenizer tokenizer = load(made_path("qwen2.5.gguf"), kNoNfc);
  const auto texts =
      split_text(read_text(data_path("ggml-vocab-qwen2.inp")), "\n__ggml_vocab_test__\n");
  const auto lines = split_text(read_text(data_path("ggml-vocab-qwen2.out")), "\n");
  ASSERT_EQ(texts.size(), 46U);
  ASSERT_EQ(lines.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::istringstream line(lines[i]);
    const Ids expected{std::istream_iterator<std::int32_t>(line), {}};
    EXPECT_EQ(tokenizer.encode(texts[i], {}), expected) << i << ": " << texts[i];
  }
}

}  // namespace
}  // namespace dllm::test
