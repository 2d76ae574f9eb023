// The parts in order: vocabulary and meanings of ids from metadata, special tokens found in raw
// text, NFC of what is between them, the pre-tokenizer's pieces, byte-pair merging.
#include "dllm/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>

#include "base/utf8.hpp"
#include "dllm/error.hpp"
#include "tokenizer/byte_pair_encoder.hpp"
#include "tokenizer/chat_format.hpp"
#include "tokenizer/normalize.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/special_matcher.hpp"
#include "tokenizer/vocabulary.hpp"

namespace dllm {

using namespace tokenizing;

namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

void require_byte_level_bpe(const GgufFile& file) {
  const auto model = file.find_string(kModelKey);
  if (!model) {
    throw Error(ErrorCode::bad_file, fmt::format("the file has no {}", kModelKey),
                place(file, kModelKey), "use a GGUF that carries its tokenizer");
  }
  if (*model == "gpt2") return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("unsupported tokenizer model \"{}\" (supported: gpt2, byte-level BPE)", *model),
      place(file, kModelKey), "use a model with a byte-level BPE vocabulary");
}

const PreTokenizer& pre_tokenizer_of(const GgufFile& file) {
  const auto name = file.find_string(kPreKey);
  if (!name) {
    throw Error(
        ErrorCode::bad_file,
        fmt::format("the file has no {}, so how its text is cut into pieces is not known", kPreKey),
        place(file, kPreKey), fmt::format("set the key to one of {}", pre_tokenizer_names()));
  }
  if (const PreTokenizer* found = find_pre_tokenizer(*name)) return *found;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("unsupported pre-tokenizer \"{}\" (supported: {})", *name, pre_tokenizer_names()),
      place(file, kPreKey), "use a model with one of these");
}

bool is_special(TokenType type) { return type == TokenType::control || type == TokenType::unknown; }

// Control, unknown and user-defined tokens, of them those that are `wanted`.
template <typename Wanted>
std::vector<SpecialMatcher::Token> special_tokens(const GgufFile& file,
                                                  const Vocabulary& vocabulary,
                                                  const Wanted& wanted) {
  std::vector<SpecialMatcher::Token> tokens;
  std::size_t n_bytes = 0;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    if ((!is_special(type) && type != TokenType::user_defined) || !wanted(id)) continue;
    tokens.push_back({vocabulary.bytes(id), id});
    n_bytes += tokens.back().bytes.size();
  }
  if (n_bytes <= SpecialMatcher::kMostBytes) return tokens;
  throw Error(ErrorCode::unsupported,
              fmt::format("special tokens have {} bytes together, at most {} are supported",
                          n_bytes, SpecialMatcher::kMostBytes),
              place(file, "tokenizer.ggml.tokens"),
              "convert the model again, with such tokens as normal ones");
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(const GgufFile& file, const TokenizerOptions& options);

  void find_forbidden_bytes();
  void keep_bytes_text();
  void require_known(std::int32_t id) const;
  void require_no_forbidden_byte(std::string_view text) const;
  std::int32_t marker(std::string_view text) const;

  std::string file;  ///< path, for messages
  const PreTokenizer& pre;
  bool normalize = false;
  Vocabulary vocabulary;
  Meanings meanings;
  BytePairEncoder pairs;
  SpecialMatcher all_special;    ///< control, unknown and user-defined tokens
  SpecialMatcher plain_special;  ///< user-defined tokens that plain text may give
  PieceSplitter splitter;
  std::bitset<256> forbidden_bytes;  ///< their only token is the mask, bos or an end token
  bool has_chat_template = false;
  ChatFormat chat;
};

Tokenizer::Impl::Impl(const GgufFile& gguf, const TokenizerOptions& options)
    : file(gguf.path().string()),
      pre((require_byte_level_bpe(gguf), pre_tokenizer_of(gguf))),
      normalize(pre.nfc && options.normalization == Normalization::reference),
      vocabulary(gguf),
      meanings(read_meanings(gguf, vocabulary, options.mask_id, pre.add_bos)),
      pairs(gguf, vocabulary, meanings.reserved, pre.ignore_merges),
      all_special(special_tokens(gguf, vocabulary, [](std::int32_t) { return true; })),
      plain_special(special_tokens(gguf, vocabulary,
                                   [&](std::int32_t id) {
                                     return vocabulary.type(id) == TokenType::user_defined &&
                                            !std::binary_search(meanings.reserved.begin(),
                                                                meanings.reserved.end(), id);
                                   })),
      splitter(pre) {
  find_forbidden_bytes();
  keep_bytes_text();
  if (const auto jinja = gguf.find_string(kTemplateKey)) {
    has_chat_template = true;
    chat = detect_chat_format(*jinja);
  }
}

void Tokenizer::Impl::find_forbidden_bytes() {
  const auto forbid = [&](std::int32_t id) {
    if (id < 0 || vocabulary.bytes(id).size() != 1) return;
    const auto byte = static_cast<unsigned char>(vocabulary.bytes(id)[0]);
    if (pairs.byte_id(byte) == id) forbidden_bytes.set(byte);
  };
  forbid(meanings.special.mask);
  forbid(meanings.special.bos);
  for (const std::int32_t id : meanings.stop_ids) forbid(id);
}

// Decoding leaves out control and unused tokens: where such a token is all a byte has, texts would
// lose the byte.
void Tokenizer::Impl::keep_bytes_text() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::int32_t id = pairs.byte_id(static_cast<unsigned char>(byte));
    const TokenType type = vocabulary.type(id);
    const bool is_hidden = is_special(type) || type == TokenType::unused;
    if (is_hidden && !forbidden_bytes[byte]) vocabulary.set_type(id, TokenType::normal);
  }
}

void Tokenizer::Impl::require_known(std::int32_t id) const {
  if (vocabulary.contains(id)) return;
  throw Error(ErrorCode::bad_usage,
              fmt::format("token id {}, the vocabulary has {} tokens", id, vocabulary.size()), file,
              fmt::format("give ids from 0 to {}", vocabulary.size() - 1));
}

void Tokenizer::Impl::require_no_forbidden_byte(std::string_view text) const {
  if (forbidden_bytes.none()) return;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (!forbidden_bytes[byte]) continue;
    throw Error(
        ErrorCode::bad_usage,
        fmt::format("byte {} of the text is 0x{:02X}, whose only token, {}, is this model's mask, "
                    "bos or an end token",
                    i, byte, pairs.byte_id(byte)),
        file, "leave the character out, or correct the special ids (--mask-id)");
  }
}

std::int32_t Tokenizer::Impl::marker(std::string_view text) const {
  const std::int32_t id = vocabulary.find(text);
  if (id >= 0) return id;
  throw Error(ErrorCode::bad_file,
              fmt::format("chat format {} needs the token {}, which the vocabulary lacks",
                          chat.row->name, text),
              fmt::format("{}, tokenizer.ggml.tokens", file),
              "use --no-chat, or a model whose vocabulary fits its chat template");
}

namespace {

// One call's working memory and output.
class Encoding {
 public:
  Encoding(const PieceSplitter& splitter, const BytePairEncoder& pairs, bool normalize)
      : splitter_(splitter), pairs_(pairs), normalize_(normalize) {}

  void special(std::int32_t id) { ids_.push_back(id); }

  /// Text between special tokens. Each byte that is no UTF-8 is a piece of its own.
  void text(std::string_view text) {
    while (!text.empty()) {
      const std::size_t valid = valid_utf8_prefix(text);
      if (valid > 0) {
        valid_text(text.substr(0, valid));
      } else {
        piece(text.substr(0, 1));
      }
      text.remove_prefix(std::max<std::size_t>(valid, 1));
    }
  }

  std::vector<std::int32_t> finish(EncodeWork* work) {
    if (work) {
      work->pieces += n_pieces_;
      work->merge_candidates += pair_scratch_.candidates();
    }
    return std::move(ids_);
  }

 private:
  void valid_text(std::string_view text) {
    if (normalize_) text = nfc(text, normalized_);
    splitter_.split(text, splitter_scratch_, take_piece_);
  }

  void piece(std::string_view piece) {
    ++n_pieces_;
    pairs_.encode(piece, pair_scratch_, ids_);
  }

  const PieceSplitter& splitter_;
  const BytePairEncoder& pairs_;
  bool normalize_;
  PieceSplitter::Scratch splitter_scratch_;
  BytePairEncoder::Scratch pair_scratch_;
  PieceSplitter::Take take_piece_ = [this](std::string_view text) { piece(text); };
  std::string normalized_;
  std::uint64_t n_pieces_ = 0;
  std::vector<std::int32_t> ids_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_gguf(const GgufFile& file, const TokenizerOptions& options) {
  return Tokenizer(std::make_unique<Impl>(file, options));
}

namespace {

void encode_text(std::string_view text, const SpecialMatcher& matcher, Encoding& encoding) {
  matcher.split(
      text, [&](std::string_view between) { encoding.text(between); },
      [&](std::int32_t id) { encoding.special(id); });
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  const Impl& self = *impl_;
  if (!options.parse_special) self.require_no_forbidden_byte(text);
  Encoding encoding(self.splitter, self.pairs, self.normalize);
  const std::int32_t bos = self.meanings.special.bos;
  const bool text_has_bos =
      options.parse_special && bos >= 0 && text.starts_with(self.vocabulary.bytes(bos));
  if (self.meanings.add_bos && !text_has_bos) encoding.special(bos);
  encode_text(text, options.parse_special ? self.all_special : self.plain_special, encoding);
  if (self.meanings.add_eos) encoding.special(self.meanings.special.eos);
  return encoding.finish(options.work);
}

std::vector<std::int32_t> Tokenizer::encode_chat(std::span<const ChatMessage> messages,
                                                 const EncodeOptions& options) const {
  const Impl& self = *impl_;
  if (!self.chat.row) {
    throw Error(ErrorCode::unsupported,
                self.has_chat_template
                    ? fmt::format("the file's chat template is of no known form (known: {})",
                                  chat_format_names())
                    : std::string("the file has no chat template"),
                fmt::format("{}, {}", self.file, kTemplateKey), "use --no-chat for raw text");
  }
  Encoding encoding(self.splitter, self.pairs, self.normalize);
  if (self.chat.begins_with_bos || self.meanings.add_bos) {
    const std::int32_t bos = self.meanings.special.bos;
    encoding.special(bos >= 0 ? bos : self.marker("<|startoftext|>"));
  }
  for (const ChatPart& part : render_chat(self.chat, messages)) {
    if (part.is_marker) {
      encoding.special(self.marker(part.text));
      continue;
    }
    if (!options.parse_special) self.require_no_forbidden_byte(part.text);
    encode_text(part.text, options.parse_special ? self.all_special : self.plain_special, encoding);
  }
  return encoding.finish(options.work);
}

bool Tokenizer::has_chat_format() const noexcept { return impl_->chat.row != nullptr; }

std::string_view Tokenizer::chat_format_name() const noexcept {
  return impl_->chat.row ? impl_->chat.row->name : std::string_view();
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    impl_->require_known(id);
    const TokenType type = impl_->vocabulary.type(id);
    if (type == TokenType::unused || (is_special(type) && !special)) continue;
    bytes += impl_->vocabulary.bytes(id);
  }
  return bytes;
}

std::string Tokenizer::piece(std::int32_t id) const {
  impl_->require_known(id);
  return std::string(impl_->vocabulary.bytes(id));
}

TokenType Tokenizer::type(std::int32_t id) const {
  impl_->require_known(id);
  return impl_->vocabulary.type(id);
}

const SpecialIds& Tokenizer::special() const noexcept { return impl_->meanings.special; }

std::int32_t Tokenizer::require_mask() const {
  if (impl_->meanings.special.mask >= 0) return impl_->meanings.special.mask;
  throw Error(ErrorCode::bad_file, "the file has no tokenizer.ggml.mask_token_id",
              fmt::format("{}, tokenizer.ggml.mask_token_id", impl_->file),
              "give the mask token's id with --mask-id");
}

std::span<const std::int32_t> Tokenizer::stop_ids() const noexcept {
  return impl_->meanings.stop_ids;
}

std::uint32_t Tokenizer::n_tokens() const noexcept {
  return static_cast<std::uint32_t>(impl_->vocabulary.size());
}

std::string_view Tokenizer::pre_tokenizer() const noexcept { return impl_->pre.name; }

}  // namespace dllm
