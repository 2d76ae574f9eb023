#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "dllm/error.hpp"
#include "tokenizer/markers.hpp"
#include "tokenizer/vocabulary.hpp"

namespace dllm::tokenizing {
namespace {

std::int32_t read_id(const GgufFile& file, const Vocabulary& vocabulary, std::string_view name) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  const auto id = file.find_u32(key);
  if (!id) return -1;
  if (vocabulary.contains(*id)) return static_cast<std::int32_t>(*id);
  throw Error(ErrorCode::bad_file,
              fmt::format("{} is {}, the vocabulary has {} tokens", key, *id, vocabulary.size()),
              place(file, key),
              name == "mask" ? "give the right id with --mask-id, or correct the key"
                             : "correct the key, or convert the model again");
}

std::int32_t read_mask(const GgufFile& file, const Vocabulary& vocabulary,
                       std::optional<std::int32_t> override_id) {
  if (!override_id) return read_id(file, vocabulary, "mask");
  if (vocabulary.contains(*override_id)) return *override_id;
  throw Error(
      ErrorCode::bad_usage,
      fmt::format("--mask-id is {}, the vocabulary has {} tokens", *override_id, vocabulary.size()),
      file.path().string(), fmt::format("give an id from 0 to {}", vocabulary.size() - 1));
}

std::int32_t end_of_turn_by_text(const Vocabulary& vocabulary) {
  for (const std::string_view marker : kEndOfTurnMarkers) {
    if (const std::int32_t id = vocabulary.find(marker); id >= 0) return id;
  }
  return -1;
}

void add_known(std::vector<std::int32_t>& ids, std::int32_t id) {
  if (id >= 0) ids.push_back(id);
}

void sort_unique(std::vector<std::int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

bool read_add_bos(const GgufFile& file, bool by_default, std::int32_t bos) {
  constexpr std::string_view kKey = "tokenizer.ggml.add_bos_token";
  const auto asked = file.find_bool(kKey);
  if (asked.value_or(false) && bos < 0) {
    throw Error(
        ErrorCode::bad_file,
        fmt::format("{} is true, but no tokenizer.ggml.bos_token_id says which token", kKey),
        place(file, kKey), "add the missing key, or set this one to false");
  }
  return asked.value_or(by_default && bos >= 0);
}

bool read_add_eos(const GgufFile& file, std::int32_t eos) {
  constexpr std::string_view kKey = "tokenizer.ggml.add_eos_token";
  const bool asked = file.find_bool(kKey).value_or(false);
  if (asked && eos < 0) {
    throw Error(
        ErrorCode::bad_file,
        fmt::format("{} is true, but no tokenizer.ggml.eos_token_id says which token", kKey),
        place(file, kKey), "add the missing key, or set this one to false");
  }
  return asked;
}

// Single bytes keep their type: a file that calls "," its bos still writes commas.
void make_control(Vocabulary& vocabulary, std::span<const std::int32_t> reserved) {
  for (const std::int32_t id : reserved) {
    const TokenType type = vocabulary.type(id);
    const bool is_byte = vocabulary.bytes(id).size() == 1;
    if (!is_byte && (type == TokenType::normal || type == TokenType::undefined ||
                     type == TokenType::user_defined)) {
      vocabulary.set_type(id, TokenType::control);
    }
  }
}

}  // namespace

Meanings read_meanings(const GgufFile& file, Vocabulary& vocabulary,
                       std::optional<std::int32_t> mask_id, bool add_bos_by_default) {
  Meanings out;
  SpecialIds& special = out.special;
  special.bos = read_id(file, vocabulary, "bos");
  special.eos = read_id(file, vocabulary, "eos");
  special.eot = read_id(file, vocabulary, "eot");
  special.pad = read_id(file, vocabulary, "padding");
  special.mask = read_mask(file, vocabulary, mask_id);
  if (special.eot < 0) special.eot = end_of_turn_by_text(vocabulary);

  add_known(out.stop_ids, special.eos);
  add_known(out.stop_ids, special.eot);
  add_known(out.stop_ids, read_id(file, vocabulary, "eom"));
  for (const std::string_view marker : kEndOfTurnMarkers) {
    add_known(out.stop_ids, vocabulary.find(marker));
  }
  add_known(out.stop_ids, vocabulary.find(kEndOfTextMarker));
  sort_unique(out.stop_ids);

  out.reserved = out.stop_ids;
  for (const std::int32_t id : {special.bos, special.pad, special.mask})
    add_known(out.reserved, id);
  for (const std::string_view name :
       {"unknown", "seperator", "cls"}) {  // "seperator": GGUF's spelling
    add_known(out.reserved, read_id(file, vocabulary, name));
  }
  for (const std::string_view marker : kHeaderMarkers) {
    add_known(out.reserved, vocabulary.find(marker));
  }
  for (const std::string_view text : kMaskTexts) add_known(out.reserved, vocabulary.find(text));
  sort_unique(out.reserved);
  make_control(vocabulary, out.reserved);

  out.add_bos = read_add_bos(file, add_bos_by_default, special.bos);
  out.add_eos = read_add_eos(file, special.eos);
  return out;
}

}  // namespace dllm::tokenizing
