// Pre-tokenizers: how text is cut into pieces before byte-pair merging, by `tokenizer.ggml.pre`.
//
// A pre-tokenizer is a row of a table: its regular expressions, and what goes with the name. To add
// one, add a row.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::tokenizing {

struct PreTokenizer {
  std::string_view name;                       ///< the value of `tokenizer.ggml.pre`
  std::span<const std::string_view> patterns;  ///< each cuts the pieces of the one before it
  bool nfc = false;            ///< the reference tokenizer of these models normalises to NFC
  bool ignore_merges = false;  ///< a piece that is a token is that token, whatever the merges say
  bool add_bos = false;        ///< where `tokenizer.ggml.add_bos_token` is absent
};

/// The row of `name`, or null.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

/// "bailingmoe, bailingmoe2, ..." for messages.
std::string pre_tokenizer_names();

/// Cuts text by a pre-tokenizer's patterns. Thread rule: const after construction, any thread; a
/// Scratch belongs to one thread at a time.
class PieceSplitter {
 public:
  using Take = std::function<void(std::string_view piece)>;

  /// Working memory of PCRE2; serves any splitter.
  class Scratch {
   public:
    Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

   private:
    friend class PieceSplitter;
    struct Memory;
    std::unique_ptr<Memory> memory_;
  };

  explicit PieceSplitter(const PreTokenizer& pre_tokenizer);
  PieceSplitter(const PieceSplitter&) = delete;
  PieceSplitter& operator=(const PieceSplitter&) = delete;
  ~PieceSplitter();

  /// Calls `take` with every piece of `text`, in order; nothing is left out. `text` is valid UTF-8.
  /// Time is linear in the text: no pattern of the table goes back over more than it then takes.
  void split(std::string_view text, Scratch& scratch, const Take& take) const;

 private:
  struct Pass;
  void split_from(std::size_t pass, std::string_view text, Scratch& scratch,
                  const Take& take) const;
  std::vector<Pass> passes_;
};

}  // namespace dllm::tokenizing
