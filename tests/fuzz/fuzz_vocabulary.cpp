// Tokenizers from any metadata: vocabularies with odd tokens, types, merges and special ids are
// refused by name or work. Input: what the vocabulary is, then the text to encode.
#include "memory_file.hpp"
#include "small_vocabulary.hpp"
#include "tokenizer_properties.hpp"

namespace {

using namespace dllm::test;
using dllm::ErrorCode;
using dllm::Tokenizer;
using dllm::TokenType;

constexpr const char* kPreTokenizers[] = {"qwen2",   "bailingmoe", "llama-bpe", "gpt-2",
                                          "default", "llada-moe",  "nonsense"};
constexpr const char* kIdKeys[] = {
    "tokenizer.ggml.bos_token_id",       "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",       "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.mask_token_id",      "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eom_token_id"};
constexpr const char* kTexts[] = {
    "<|eot_id|>", "<|im_end|>", "<|endoftext|>", "<|mask|>", "<role>", "<0x41>", "ab", "<"};

struct Made {
  std::string bytes;
  bool add_bos = false;
  bool add_eos = false;
};

Made make(ByteReader& in) {
  SmallVocabulary vocabulary;
  Made made;
  vocabulary.pre = in.pick(kPreTokenizers);
  vocabulary.with_types = !in.flag();
  for (std::uint32_t n = in.below(12); n > 0; --n) {
    std::string text = in.flag() ? in.pick(kTexts) : in.text(6);
    if (in.flag()) text = in_byte_alphabet(text);
    vocabulary.add(std::move(text), static_cast<TokenType>(in.below(8)));
  }
  for (std::uint32_t n = in.below(8); n > 0; --n) vocabulary.merge(in.text(3), in.text(3));
  for (std::uint32_t n = in.below(3); n > 0; --n) vocabulary.merges.push_back(in.text(5));
  if (in.below(16) == 0) vocabulary.bytes[in.byte()] = in.text(3);
  const std::uint32_t bits = in.byte();
  for (std::size_t i = 0; i < std::size(kIdKeys); ++i) {
    if ((bits >> i & 1U) == 0) continue;
    vocabulary.more.set(kIdKeys[i], static_cast<std::uint32_t>(in.take<std::uint16_t>() % 300));
  }
  // The default depends on the pre-tokenizer: always said here.
  made.add_bos = in.flag();
  made.add_eos = in.flag();
  vocabulary.more.set("tokenizer.ggml.add_bos_token", made.add_bos);
  vocabulary.more.set("tokenizer.ggml.add_eos_token", made.add_eos);
  made.bytes = vocabulary.writer().to_bytes();
  return made;
}

void check_text(const Tokenizer& tokenizer, const Made& made, const std::string& text) {
  Ids ids;
  const auto error = refusal_of([&] { ids = tokenizer.encode(text, {}); });
  if (error) {  // a byte whose only token steers
    FUZZ_REQUIRE(error->code() == ErrorCode::bad_usage && !text.empty());
    return;
  }
  ids = without_frame(tokenizer, ids, made.add_bos, made.add_eos);
  require_plain(tokenizer, ids);
  FUZZ_REQUIRE(pieces_of(tokenizer, ids) == text);
  FUZZ_REQUIRE(tokenizer.decode(ids, true) == text);
  FUZZ_REQUIRE(tokenizer.decode(ids) == text);
  check_shown(tokenizer, ids, 0xA5A5F00FU);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile memory;
  ByteReader in(data, size);
  const Made made = make(in);
  memory.set(made.bytes);
  const auto file = dllm::GgufFile::open(memory.path());
  std::optional<Tokenizer> tokenizer;
  const auto error = refusal_of([&] {
    tokenizer = Tokenizer::from_gguf(
        *file, {.normalization = dllm::Normalization::none, .mask_id = std::nullopt});
  });
  if (error) {
    FUZZ_REQUIRE(error->code() == ErrorCode::bad_file || error->code() == ErrorCode::unsupported);
    return 0;
  }
  check_text(*tokenizer, made, in.rest());
  return 0;
}
