// The vocabularies that make_vocabularies.py wrote; small ones are made on the spot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dllm/gguf.hpp"
#include "dllm/tokenizer.hpp"
#include "small_vocabulary.hpp"

namespace dllm::test {

inline std::filesystem::path data_path(const std::string& name) {
  return std::filesystem::path(DLLM_TEST_DATA) / "data" / name;
}

inline std::filesystem::path made_path(const std::string& name) {
  return std::filesystem::path(DLLM_TOKENIZER_VOCABULARIES) / name;
}

inline Tokenizer load(const std::filesystem::path& path, TokenizerOptions options = {}) {
  return Tokenizer::from_gguf(*GgufFile::open(path), options);
}

/// The ids of each byte in a SmallVocabulary.
inline std::vector<std::int32_t> byte_ids(std::string_view bytes) {
  std::vector<std::int32_t> ids;
  for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

using Ids = std::vector<std::int32_t>;

}  // namespace dllm::test
