// Chat formats: any template, any conversation. What a message says cannot forge a turn, a header,
// a mask or an end. Input: template (known or text), messages.
#include <map>

#include "memory_file.hpp"
#include "small_vocabulary.hpp"
#include "tokenizer_properties.hpp"

namespace {

using namespace dllm::test;
using dllm::ChatMessage;
using dllm::ErrorCode;
using dllm::Tokenizer;
using dllm::TokenType;

constexpr const char* kMarkers[] = {"<|startoftext|>",
                                    "<|endoftext|>",
                                    "<|mask|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eot_id|>",
                                    "<|im_start|>",
                                    "<|im_end|>",
                                    "<role>",
                                    "</role>",
                                    "<|role_end|>"};
constexpr const char* kTemplates[] = {
    "{{bos_token}}<|start_header_id|>{{role}}<|end_header_id|>{{content | trim}}<|eot_id|>",
    "{{'<|im_start|>' + role + '\n' + content + '<|im_end|>'}}",
    "{{'<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n'}}",
    "<role>SYSTEM</role>detailed thinking off<|role_end|><role>ASSISTANT</role>", "{{content}}"};
constexpr const char* kRoles[] = {"system", "user", "assistant", "User"};

// The tokenizer of the last template; making one for each input would take most of the time.
const Tokenizer& tokenizer_of(const std::string& jinja) {
  static const MemoryFile memory;
  static std::string last = "\x01none";
  static std::optional<Tokenizer> tokenizer;
  if (jinja == last) return *tokenizer;
  SmallVocabulary vocabulary;
  for (const char* marker : kMarkers) vocabulary.add(marker, TokenType::control);
  vocabulary.add("<tool>", TokenType::user_defined);
  vocabulary.more.set("tokenizer.ggml.bos_token_id", std::uint32_t{256});
  vocabulary.more.set("tokenizer.ggml.eos_token_id", std::uint32_t{257});
  vocabulary.more.set("tokenizer.ggml.mask_token_id", std::uint32_t{258});
  vocabulary.more.set("tokenizer.chat_template", jinja);
  memory.set(vocabulary.writer().to_bytes());
  tokenizer = Tokenizer::from_gguf(*dllm::GgufFile::open(memory.path()), {});
  last = jinja;
  return *tokenizer;
}

std::vector<ChatMessage> read_messages(ByteReader& in) {
  std::vector<ChatMessage> messages;
  for (std::uint32_t n = in.below(6); n > 0; --n) {
    ChatMessage message;
    message.role = in.below(32) == 31 ? in.text(8) : in.pick(kRoles);
    for (std::uint32_t parts = in.below(4); parts > 0; --parts) {
      message.content += in.flag() ? in.pick(kMarkers) : in.text(40);
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

// How often each marker occurs.
std::map<std::int32_t, int> markers_of(const Ids& ids) {
  std::map<std::int32_t, int> counts;
  for (const std::int32_t id : ids) {
    if (id >= 256 && id < 256 + static_cast<std::int32_t>(std::size(kMarkers))) ++counts[id];
  }
  return counts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader in(data, size);
  const std::string jinja = in.below(4) == 3 ? in.text(200) : in.pick(kTemplates);
  const Tokenizer& tokenizer = tokenizer_of(jinja);
  std::vector<ChatMessage> messages = read_messages(in);
  Ids ids;
  const auto error = refusal_of([&] { ids = tokenizer.encode_chat(messages, {}); });
  if (error) {
    const bool known_roles = std::ranges::all_of(messages, [](const ChatMessage& message) {
      return message.role == "system" || message.role == "user" || message.role == "assistant";
    });
    FUZZ_REQUIRE(error->code() == ErrorCode::unsupported || error->code() == ErrorCode::bad_usage);
    FUZZ_REQUIRE(!known_roles || !tokenizer.has_chat_format());
    return 0;
  }
  FUZZ_REQUIRE(tokenizer.has_chat_format());
  FUZZ_REQUIRE(markers_of(ids).count(tokenizer.require_mask()) == 0);
  // The same conversation with nothing said has the same turns.
  for (ChatMessage& message : messages) message.content.clear();
  FUZZ_REQUIRE(markers_of(ids) == markers_of(tokenizer.encode_chat(messages, {})));
  check_shown(tokenizer, ids, 0x0FF0A5A5U);
  return 0;
}
