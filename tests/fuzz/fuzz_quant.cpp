// The block decoders on any bytes: a row decodes as its blocks do one by one, and
// find_non_finite() finds what the decoded numbers show. Input: a type, then blocks.
#include <cmath>
#include <vector>

#include "dllm/quant.hpp"
#include "fuzz_target.hpp"

namespace {

using dllm::DType;
using dllm::DTypeInfo;

std::vector<float> decode(const DTypeInfo& info, std::span<const std::byte> bytes) {
  std::vector<float> out(bytes.size() / info.block_bytes * info.block_size);
  dllm::decode_row(info.dtype, bytes, out);
  return out;
}

std::vector<float> decode_block_by_block(const DTypeInfo& info, std::span<const std::byte> bytes) {
  std::vector<float> out;
  for (std::size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    // A copy on the heap: reads past the block are seen.
    const auto part = bytes.subspan(at, info.block_bytes);
    const std::vector<std::byte> block(part.begin(), part.end());
    const std::vector<float> values = decode(info, block);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

void check_non_finite(const DTypeInfo& info, std::span<const std::byte> bytes,
                      std::span<const float> values) {
  const auto found = dllm::find_non_finite(info.dtype, bytes);
  if (!found) {
    FUZZ_REQUIRE(all_finite(values));
    return;
  }
  FUZZ_REQUIRE(*found < values.size());
  FUZZ_REQUIRE(all_finite(values.first(*found)));
  FUZZ_REQUIRE(!all_finite(values.subspan(*found, info.block_size)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto types = dllm::all_dtypes();
  const DTypeInfo& info = types[data[0] % types.size()];
  const auto all = std::as_bytes(std::span(data, size).subspan(1));
  const auto bytes = all.first(all.size() / info.block_bytes * info.block_bytes);
  if (!dllm::can_decode(info.dtype)) {
    const auto error = dllm::test::refusal_of([&] { decode(info, bytes); });
    FUZZ_REQUIRE(error && error->code() == dllm::ErrorCode::unsupported);
    return 0;
  }
  const std::vector<float> values = decode(info, bytes);
  const std::vector<float> again = decode_block_by_block(info, bytes);
  FUZZ_REQUIRE(values.size() == again.size());
  FUZZ_REQUIRE(values.empty() ||
               std::memcmp(values.data(), again.data(), values.size() * sizeof(float)) == 0);
  check_non_finite(info, bytes, values);
  return 0;
}
