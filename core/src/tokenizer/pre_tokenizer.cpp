#include "tokenizer/pre_tokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "dllm/error.hpp"
#include "tokenizer/unicode_classes.hpp"

namespace dllm::tokenizing {
namespace {

using Patterns = std::array<std::string_view, 1>;

// Patterns as the Hugging Face tokenizers of the models write them; `default` as llama.cpp splits
// files that name no pre-tokenizer (four passes).
constexpr Patterns kBailing{
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr Patterns kQwen2{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Patterns kLlama3{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr Patterns kGpt2{kGpt2Pattern};
constexpr std::array<std::string_view, 4> kDefault{R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern,
                                                   R"(\p{N}+)", R"([0-9][0-9][0-9])"};

// NFC is decided here: the tokenizer.json of LLaDA, Ling and Qwen2/Qwen3 (Dream, SDAR, RND1) names
// the normalizer NFC; that of GPT-2 and Llama 3 names none.
constexpr std::array kPreTokenizers{
    PreTokenizer{.name = "bailingmoe", .patterns = kBailing, .nfc = true},
    PreTokenizer{.name = "bailingmoe2", .patterns = kBailing, .nfc = true},
    PreTokenizer{.name = "llada-moe", .patterns = kBailing, .nfc = true},
    PreTokenizer{.name = "qwen2", .patterns = kQwen2, .nfc = true},
    PreTokenizer{.name = "megrez", .patterns = kQwen2, .nfc = true},
    PreTokenizer{.name = "kormo", .patterns = kQwen2, .nfc = true},
    PreTokenizer{.name = "f2llmv2", .patterns = kQwen2, .nfc = true},
    PreTokenizer{.name = "deepseek-r1-qwen", .patterns = kQwen2},
    PreTokenizer{.name = "llama-bpe", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    PreTokenizer{.name = "llama3", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    PreTokenizer{.name = "llama-v3", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    PreTokenizer{.name = "gpt-2", .patterns = kGpt2},
    PreTokenizer{.name = "phi-2", .patterns = kGpt2},
    PreTokenizer{.name = "default", .patterns = kDefault},
};

std::string pcre2_message(int code) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(code, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
template <typename T>
using Pcre2Ptr = std::unique_ptr<T, Free>;

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto* found = std::find_if(kPreTokenizers.begin(), kPreTokenizers.end(),
                                   [&](const PreTokenizer& row) { return row.name == name; });
  return found == kPreTokenizers.end() ? nullptr : found;
}

std::string pre_tokenizer_names() {
  std::string names;
  for (const PreTokenizer& row : kPreTokenizers) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

struct PieceSplitter::Pass {
  Pcre2Ptr<pcre2_code> code;
};

struct PieceSplitter::Scratch::Memory {
  Pcre2Ptr<pcre2_match_data> match{pcre2_match_data_create(1, nullptr)};
  Pcre2Ptr<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
};

PieceSplitter::Scratch::Scratch() : memory_(std::make_unique<Memory>()) {
  if (!memory_->match || !memory_->context) {
    throw Error(ErrorCode::resource, "no memory for the pre-tokenizer's matcher", "PCRE2",
                "free memory, or raise the limit on it (ulimit -v)");
  }
  // A piece may be as long as the text; the table's patterns are linear, so no limit is needed.
  pcre2_set_match_limit(memory_->context.get(), UINT32_MAX);
  pcre2_set_heap_limit(memory_->context.get(), UINT32_MAX);
}

PieceSplitter::Scratch::~Scratch() = default;

// Interpreted, not compiled to machine code: PCRE2's compiler keeps pages that are writable and
// executable (docs/decisions/0008 has what that would save).
PieceSplitter::PieceSplitter(const PreTokenizer& pre_tokenizer) {
  for (const std::string_view written : pre_tokenizer.patterns) {
    const std::string pattern = with_unicode_15_classes(written);
    int code = 0;
    PCRE2_SIZE offset = 0;
    Pass pass{Pcre2Ptr<pcre2_code>(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr))};
    if (!pass.code) {
      throw Error(ErrorCode::internal,
                  fmt::format("pattern of pre-tokenizer {} does not compile at offset {}: {}",
                              pre_tokenizer.name, offset, pcre2_message(code)),
                  "PCRE2", "use PCRE2 10.40 or newer, built with Unicode support");
    }
    passes_.push_back(std::move(pass));
  }
}

PieceSplitter::~PieceSplitter() = default;

void PieceSplitter::split(std::string_view text, Scratch& scratch, const Take& take) const {
  split_from(0, text, scratch, take);
}

void PieceSplitter::split_from(std::size_t pass, std::string_view text, Scratch& scratch,
                               const Take& take) const {
  if (text.empty()) return;
  if (pass == passes_.size()) return take(text);
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(scratch.memory_->match.get());
  std::size_t begin = 0;
  while (begin < text.size()) {
    // NO_UTF_CHECK: the caller has checked; checking the rest on every match would be quadratic.
    const int rc = pcre2_match(passes_[pass].code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                               text.size(), begin, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                               scratch.memory_->match.get(), scratch.memory_->context.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      throw Error(ErrorCode::internal,
                  fmt::format("the pre-tokenizer stopped at byte {} of {}: {}", begin, text.size(),
                              pcre2_message(rc)),
                  "PCRE2", "report this as a bug, with the text");
    }
    const std::size_t match_begin = span[0];
    const std::size_t match_end = span[1];
    split_from(pass + 1, text.substr(begin, match_begin - begin), scratch, take);
    split_from(pass + 1, text.substr(match_begin, match_end - match_begin), scratch, take);
    begin = match_end;
  }
  split_from(pass + 1, text.substr(begin), scratch, take);
}

}  // namespace dllm::tokenizing
