#include "small_vocabulary.hpp"

namespace dllm::test {
namespace {

std::string utf8_of(unsigned code_point) {  // below U+0800
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

bool prints(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

std::vector<std::string> SmallVocabulary::all_bytes() {
  std::vector<std::string> texts;
  unsigned shifted = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    texts.push_back(utf8_of(prints(byte) ? byte : shifted++));
  return texts;
}

std::string in_byte_alphabet(std::string_view bytes) {
  static const std::vector<std::string> kTexts = SmallVocabulary::all_bytes();
  std::string text;
  for (const char byte : bytes) text += kTexts[static_cast<unsigned char>(byte)];
  return text;
}

std::int32_t SmallVocabulary::merge(std::string_view left, std::string_view right) {
  merges.push_back(in_byte_alphabet(left) + " " + in_byte_alphabet(right));
  return add(in_byte_alphabet(std::string(left) + std::string(right)), TokenType::normal);
}

std::int32_t SmallVocabulary::add(std::string text, TokenType type) {
  extra.push_back({std::move(text), type});
  return static_cast<std::int32_t>(bytes.size() + extra.size() - 1);
}

GgufWriter SmallVocabulary::writer() const {
  std::vector<std::string> texts = bytes;
  std::vector<std::int32_t> types(bytes.size(), 1);
  for (const Token& token : extra) {
    texts.push_back(token.text);
    types.push_back(static_cast<std::int32_t>(token.type));
  }
  GgufWriter out = more;
  out.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
  out.set_array("tokenizer.ggml.tokens", texts).set_array("tokenizer.ggml.merges", merges);
  if (with_types) out.set_array("tokenizer.ggml.token_type", types);
  return out;
}

Tokenizer SmallVocabulary::make(TokenizerOptions options) const {
  const TemporaryDirectory folder;
  writer().write(folder.path() / "small.gguf");
  return Tokenizer::from_gguf(*GgufFile::open(folder.path() / "small.gguf"), options);
}

}  // namespace dllm::test
