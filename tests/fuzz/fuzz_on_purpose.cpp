// A property that a few bytes break: proves that the fuzzer searches and a find is reported.
#include "fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = dllm::test::as_text(data, size);
  FUZZ_REQUIRE(!(text.starts_with("dl") && text.ends_with("m")));
  return 0;
}
