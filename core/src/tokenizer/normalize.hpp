// Unicode normalisation form C.
#pragma once

#include <string>
#include <string_view>

namespace dllm::tokenizing {

/// NFC of `text`, which must be valid UTF-8, by the tables of the utf8proc that this build links
/// (2.8: Unicode 15.0). Returns `text` itself where it is NFC already at a glance, else `storage`.
/// O(n log n) also for endless runs of combining marks.
std::string_view nfc(std::string_view text, std::string& storage);

}  // namespace dllm::tokenizing
