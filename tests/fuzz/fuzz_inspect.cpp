// `dllm inspect` on any bytes, broken files included: the JSON parses and lists every tensor; the
// text is UTF-8 without control bytes, one line for each thing.
#include <nlohmann/json.hpp>

#include "dllm/display_text.hpp"
#include "dllm/gguf.hpp"
#include "dllm/inspect.hpp"
#include "fuzz_target.hpp"
#include "memory_file.hpp"

namespace {

void check_json(const dllm::GgufScan& scan) {
  const nlohmann::json json = nlohmann::json::parse(dllm::inspect_json(scan));
  FUZZ_REQUIRE(json.is_object());
  FUZZ_REQUIRE(json.contains("error") == scan.error.has_value());
  if (!scan.file) return;
  FUZZ_REQUIRE(json.at("version") == scan.file->version());
  FUZZ_REQUIRE(json.at("tensors").size() == scan.file->tensors().size());
  FUZZ_REQUIRE(json.at("metadata").size() <= scan.file->metadata().size());
  for (const nlohmann::json& tensor : json.at("tensors")) {
    FUZZ_REQUIRE(tensor.at("name").is_string() && tensor.at("type").is_string());
    FUZZ_REQUIRE(tensor.at("shape").is_array() && tensor.at("bytes").is_number_unsigned());
  }
}

void check_text(const std::string& text) {
  FUZZ_REQUIRE(dllm::replace_invalid_utf8(text) == text);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    FUZZ_REQUIRE(byte == '\n' || (byte >= 0x20 && byte != 0x7F));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dllm::test::MemoryFile memory;
  memory.set(dllm::test::as_text(data, size));
  const dllm::GgufScan scan = dllm::GgufFile::scan(memory.path());
  check_json(scan);
  const std::string text = dllm::inspect_text(scan);
  check_text(text);
  FUZZ_REQUIRE(scan.file == nullptr || !text.empty());
  return 0;
}
