// The plugin descriptor reader on any bytes: a file is refused in one sentence, or what it says of
// itself is fit to show and to ask for. Nothing here loads the file.
#include "dllm/display_text.hpp"
#include "dllm/plugin.hpp"
#include "fuzz_target.hpp"
#include "memory_file.hpp"

namespace {

bool prints(std::string_view text) {
  return dllm::replace_invalid_utf8(text) == text &&
         std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7F; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dllm::test::MemoryFile memory;
  memory.set(dllm::test::as_text(data, size));
  const dllm::PluginRecord record = dllm::inspect_plugin(memory.path());
  FUZZ_REQUIRE(!record.accepted);  // that takes loading it
  FUZZ_REQUIRE(prints(record.id) && prints(record.version) && prints(record.summary));
  FUZZ_REQUIRE(prints(record.reason));
  if (record.reason.empty()) {
    FUZZ_REQUIRE(record.kind != dllm::PluginKind::unknown);
    FUZZ_REQUIRE(!record.id.empty());
    FUZZ_REQUIRE(record.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
                 std::string::npos);
  } else {
    FUZZ_REQUIRE(record.reason.find("Fix: ") != std::string::npos);
  }
  return 0;
}
