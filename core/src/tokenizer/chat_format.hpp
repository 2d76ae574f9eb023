// Chat formats as data: how a conversation is written for a model. The Jinja template in the file
// is only looked at to tell which format it is; it is never run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/tokenizer.hpp"

namespace dllm::tokenizing {

/// A conversation is: begin, each message, answer. In these texts `{role}` and `{content}` are
/// filled in; everything in `markers` stands for one token.
struct ChatFormatRow {
  std::string_view name;
  std::span<const std::string_view> detect;  ///< all must occur in the template
  std::span<const std::string_view> markers;
  std::string_view message;
  std::string_view answer;
  std::string_view system_role, user_role, assistant_role;
  std::string_view system_suffix;  ///< closes the first system message where the template has it;
                                   ///< without a system message it is one of its own
};

/// A row and what the file's own template says about details.
struct ChatFormat {
  const ChatFormatRow* row = nullptr;
  bool begins_with_bos = false;
  bool trims_content = false;
  bool has_system_suffix = false;
  std::string default_system;  ///< where the first message is no system message; empty: none
};

/// The format of a template, or one with a null row where it is of no known form.
ChatFormat detect_chat_format(std::string_view jinja);

/// "llada, chatml, ling" for messages.
std::string chat_format_names();

/// Either a marker or text between markers.
struct ChatPart {
  bool is_marker = false;
  std::string text;
};

/// The whole conversation, up to where the answer begins. Neighbouring texts are one part, as the
/// reference tokenises them in one go. Throws Error (bad_usage) for an unknown role.
std::vector<ChatPart> render_chat(const ChatFormat& format, std::span<const ChatMessage> messages);

}  // namespace dllm::tokenizing
