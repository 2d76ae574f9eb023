#include "tokenizer/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "dllm/error.hpp"
#include "tokenizer/byte_map.hpp"

namespace dllm::tokenizing {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kConvertAgain = "convert the model again";

void require_one_per_token(const GgufFile& file, std::string_view key, std::size_t n,
                           std::size_t n_tokens) {
  if (n == n_tokens) return;
  throw Error(ErrorCode::bad_file,
              fmt::format("{} has {} entries, {} has {}", key, n, kTokens, n_tokens),
              place(file, key), std::string(kConvertAgain));
}

TokenType checked_type(const GgufFile& file, std::size_t i, std::int64_t value) {
  if (value >= 0 && value <= 6) return static_cast<TokenType>(value);
  throw Error(ErrorCode::bad_file, fmt::format("token {} has type {}, known are 0 to 6", i, value),
              place(file, kTypes), std::string(kConvertAgain));
}

std::vector<TokenType> read_types(const GgufFile& file, std::size_t n_tokens) {
  std::vector<TokenType> types(n_tokens, TokenType::normal);
  const MetadataArray* array = file.find_array(kTypes);
  if (!array) return types;
  require_one_per_token(file, kTypes, array->size(), n_tokens);
  const auto take = [&](const auto& values) {
    for (std::size_t i = 0; i < n_tokens; ++i) {
      types[i] = checked_type(file, i, static_cast<std::int64_t>(values[i]));
    }
  };
  if (const auto* values = std::get_if<std::vector<std::int64_t>>(&array->values)) {
    take(*values);
  } else if (const auto* unsigned_values =
                 std::get_if<std::vector<std::uint64_t>>(&array->values)) {
    take(*unsigned_values);
  } else {
    throw Error(ErrorCode::bad_file,
                fmt::format("{} is an array of {}, expected integers", kTypes,
                            metadata_type_name(array->element_type)),
                place(file, kTypes), std::string(kConvertAgain));
  }
  return types;
}

// "<0x41>" stands for byte 0x41.
std::optional<char> byte_token_value(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

std::string place(const GgufFile& file, std::string_view key) {
  return fmt::format("{}, {}", file.path().string(), key);
}

const std::vector<std::string_view>& string_array(const GgufFile& file, std::string_view key) {
  const MetadataArray* array = file.find_array(key);
  if (!array) {
    throw Error(ErrorCode::bad_file, fmt::format("the file has no {}", key), place(file, key),
                "use a GGUF that carries its tokenizer, or convert the model again");
  }
  const auto* strings = std::get_if<std::vector<std::string_view>>(&array->values);
  if (!strings) {
    throw Error(ErrorCode::bad_file,
                fmt::format("{} is an array of {}, expected strings", key,
                            metadata_type_name(array->element_type)),
                place(file, key), std::string(kConvertAgain));
  }
  return *strings;
}

Vocabulary::Vocabulary(const GgufFile& file) {
  const auto& texts = string_array(file, kTokens);
  if (texts.empty() ||
      texts.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(ErrorCode::bad_file, fmt::format("{} has {} entries", kTokens, texts.size()),
                place(file, kTokens), std::string(kConvertAgain));
  }
  types_ = read_types(file, texts.size());
  if (const MetadataArray* scores = file.find_array(kScores)) {
    require_one_per_token(file, kScores, scores->size(), texts.size());
  }
  read_tokens(texts);
}

void Vocabulary::read_tokens(const std::vector<std::string_view>& texts) {
  std::vector<bool> findable(texts.size(), false);
  ends_.reserve(texts.size() + 1);
  ends_.push_back(0);
  std::string mapped;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    mapped.clear();
    const bool in_alphabet = bytes_of_token_text(texts[i], mapped);
    const bool is_text = types_[i] == TokenType::normal || types_[i] == TokenType::undefined;
    const auto byte = types_[i] == TokenType::byte ? byte_token_value(texts[i]) : std::nullopt;
    if (byte) {
      arena_.push_back(*byte);
    } else {
      arena_.append(is_text ? std::string_view(mapped) : texts[i]);
      findable[i] = in_alphabet && (is_text || mapped == texts[i]);
    }
    ends_.push_back(arena_.size());
  }
  ids_ = TextIndex(texts.size());
  const auto bytes_of = [this](std::int32_t id) { return bytes(id); };
  for (std::int32_t id = 0; id < size(); ++id) {  // a text that occurs twice keeps its first id
    if (findable[index(id)] && !bytes(id).empty()) ids_.insert(id, bytes_of);
  }
}

bool Vocabulary::has_only_single_bytes() const {
  for (std::int32_t id = 0; id < size(); ++id) {
    if (type(id) == TokenType::normal && bytes(id).size() > 1) return false;
  }
  return true;
}

}  // namespace dllm::tokenizing
