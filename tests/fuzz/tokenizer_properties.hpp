// What holds for a text and any tokenizer that takes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dllm/display_text.hpp"
#include "dllm/tokenizer.hpp"
#include "fuzz_target.hpp"

namespace dllm::test {

using Ids = std::vector<std::int32_t>;

/// `ids` without the bos and eos that the file asks to put around every text.
inline Ids without_frame(const Tokenizer& tokenizer, Ids ids, bool add_bos, bool add_eos) {
  if (add_bos) {
    FUZZ_REQUIRE(!ids.empty() && ids.front() == tokenizer.special().bos);
    ids.erase(ids.begin());
  }
  if (add_eos) {
    FUZZ_REQUIRE(!ids.empty() && ids.back() == tokenizer.special().eos);
    ids.pop_back();
  }
  return ids;
}

/// Text never gives an id that steers: mask, bos, an end token.
inline void require_plain(const Tokenizer& tokenizer, const Ids& ids) {
  const auto stops = tokenizer.stop_ids();
  for (const std::int32_t id : ids) {
    FUZZ_REQUIRE(id >= 0 && static_cast<std::uint32_t>(id) < tokenizer.n_tokens());
    FUZZ_REQUIRE(id != tokenizer.special().mask && id != tokenizer.special().bos);
    FUZZ_REQUIRE(std::ranges::find(stops, id) == stops.end());
  }
}

/// Each id alone gives the bytes that all give together.
inline std::string pieces_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += tokenizer.piece(id);
  return bytes;
}

inline bool is_utf8(std::string_view text) { return replace_invalid_utf8(text) == text; }

/// What is shown of `ids` is UTF-8 whatever part of them is known.
inline void check_shown(const Tokenizer& tokenizer, const Ids& ids, std::uint32_t mask_bits) {
  std::vector<std::uint8_t> known(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) known[i] = (mask_bits >> (i % 32)) & 1U;
  FUZZ_REQUIRE(is_utf8(display_text(tokenizer, ids, known, "_")));
  const std::string text = final_text(tokenizer, ids);
  FUZZ_REQUIRE(is_utf8(text));
  FUZZ_REQUIRE(text == replace_invalid_utf8(tokenizer.decode(ids)));
}

}  // namespace dllm::test
