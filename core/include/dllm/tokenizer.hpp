// Tokenizer: byte-level BPE, special tokens and chat formats from GGUF metadata.
//
//   auto tokenizer = dllm::Tokenizer::from_gguf(*file, {});
//   std::vector<std::int32_t> ids = tokenizer.encode_chat({{{"user", "Hello"}}}, {});
//   std::string bytes = tokenizer.decode(ids);
//
// User text is text: mask, bos, eos, eot and header ids never come from it, whatever their token
// type, unless EncodeOptions::parse_special says so. Chat markers come from the chat format alone.
// Thread rule: const after construction, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/gguf.hpp"

namespace dllm {

enum class Normalization { reference, none };  ///< reference: NFC for the models that use it

struct TokenizerOptions {
  Normalization normalization = Normalization::reference;
  std::optional<std::int32_t> mask_id;  ///< --mask-id: overrides the metadata
};

/// What encoding did, for tests of its time bound and for profiles.
struct EncodeWork {
  std::uint64_t pieces = 0;  ///< of the pre-tokenizer
  /// Pairs looked up: at most 3 a byte of text, whatever the text.
  std::uint64_t merge_candidates = 0;
};

struct EncodeOptions {
  bool parse_special = false;  ///< recognise control tokens in the text
  EncodeWork* work = nullptr;  ///< where to add up the work, or null
};

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

/// Ids with a meaning; -1 where the vocabulary has none.
struct SpecialIds {
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  std::int32_t eot = -1;
  std::int32_t pad = -1;
  std::int32_t mask = -1;
};

enum class TokenType : std::int32_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

class Tokenizer {
 public:
  /// Throws Error naming the key for missing or broken metadata and for an unknown pre-tokenizer.
  /// A missing mask id is not an error here: require_mask() is.
  static Tokenizer from_gguf(const GgufFile& file, const TokenizerOptions& options);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids of plain text; bos/eos are added as the metadata's add_bos_token/add_eos_token say.
  /// Bytes that are no UTF-8 are kept, one token each. Throws Error (bad_usage) where plain text
  /// needs a byte whose only token is the mask, bos or an end token.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const;

  /// Ids of a conversation in the model's chat format, ending where the assistant's answer begins.
  /// One bos goes first where the template or add_bos_token asks for it.
  /// Throws Error (unsupported) when the file's chat template is of no known form, (bad_usage) for
  /// an unknown role. Without a chat template: Error (unsupported) naming --no-chat.
  std::vector<std::int32_t> encode_chat(std::span<const ChatMessage> messages,
                                        const EncodeOptions& options) const;
  /// Whether encode_chat() can work: the file has a chat template of a known form.
  bool has_chat_format() const noexcept;
  /// "llada", "chatml", "ling", or "" without a chat template of a known form.
  std::string_view chat_format_name() const noexcept;

  /// Exact bytes of the ids. Control tokens print as their text with `special`, else as nothing.
  /// Throws Error (bad_usage) for an id outside the vocabulary.
  std::string decode(std::span<const std::int32_t> ids, bool special = false) const;

  /// The token's own text, as `dllm tokenize` lists pieces: bytes of normal tokens, text of others.
  /// Throws Error (bad_usage) for an id outside the vocabulary; so does type().
  std::string piece(std::int32_t id) const;
  /// As the file says, except that tokens which steer a conversation (mask, bos, eos, end markers,
  /// chat markers) are `control` even where the file calls them normal or user-defined, and a token
  /// that is all a byte has is `normal` where it steers nothing.
  TokenType type(std::int32_t id) const;

  const SpecialIds& special() const noexcept;
  /// The mask id; throws Error (bad_file) naming tokenizer.ggml.mask_token_id and --mask-id.
  std::int32_t require_mask() const;
  /// Ids that end an answer: eos, eot and tokens that are end markers by their text; sorted.
  std::span<const std::int32_t> stop_ids() const noexcept;
  std::uint32_t n_tokens() const noexcept;
  std::string_view pre_tokenizer() const noexcept;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dllm
