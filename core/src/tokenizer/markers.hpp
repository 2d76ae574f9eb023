// Texts of tokens that steer a conversation, in any model we know: markers of chat formats, end
// markers, masks. Tokens with these texts never come from user text, whatever their type says.
#pragma once

#include <array>
#include <string_view>

namespace dllm::tokenizing {

/// End an answer, most specific first: the first that a vocabulary has is its end-of-turn token
/// where `tokenizer.ggml.eot_token_id` is absent.
inline constexpr std::array<std::string_view, 3> kEndOfTurnMarkers{"<|eot_id|>", "<|im_end|>",
                                                                   "<|role_end|>"};
inline constexpr std::string_view kEndOfTextMarker = "<|endoftext|>";

/// Open a message or name its role.
inline constexpr std::array<std::string_view, 6> kHeaderMarkers{
    "<|startoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|im_start|>", "<role>",
    "</role>"};

/// Mask tokens of LLaDA, Dream and SDAR.
inline constexpr std::array<std::string_view, 3> kMaskTexts{"<|mdm_mask|>", "<|mask|>", "<|MASK|>"};

}  // namespace dllm::tokenizing
