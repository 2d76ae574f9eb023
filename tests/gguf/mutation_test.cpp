// Properties under damage: a file cut at any length is refused, and no flipped bits crash the
// reader or let it hand out anything outside the file.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "dllm/inspect.hpp"
#include "gguf_writer.hpp"
#include "memory_file.hpp"

namespace dllm {
namespace {

using test::GgufWriter;
using test::MemoryFile;

std::string sample() {
  GgufWriter writer;
  writer.set("general.architecture", "dream").set("general.alignment", std::uint32_t{32});
  writer.set("dream.rope.freq_base", 1e6F).set("flag", true).set("wide", std::int64_t{-5});
  writer.set_array<std::string>("tokenizer.ggml.tokens", {"a", "b", "<mask>"});
  writer.set_array<std::int32_t>("tokenizer.ggml.token_type", {1, 1, 3});
  writer.set_array<bool>("flags", {true, false});
  writer.add_zeros("token_embd.weight", DType::q8_0, {64, 3});
  writer.add_zeros("output_norm.weight", DType::f32, {64});
  writer.add_tensor("blk.0.attn_q.bias", DType::f32, {3}, {1, 2, 3});
  return writer.to_bytes();
}

// Reads everything that an accepted file offers; a sanitizer sees what is out of range.
std::uint64_t touch(const GgufFile& file) {
  std::uint64_t sum = inspect_text(file).size() + inspect_json(file).size();
  for (const TensorInfo& tensor : file.tensors()) {
    for (const std::byte b : file.data(tensor)) sum += static_cast<std::uint64_t>(b);
    file.release_pages(tensor);
  }
  return sum;
}

// Any Error is fine, anything else is not. True when the file was accepted.
bool try_bytes(const MemoryFile& file, const std::string& bytes) {
  file.set(bytes);
  const std::filesystem::path path = file.path();
  const GgufScan scan = GgufFile::scan(path);
  if (scan.file) {
    EXPECT_GT(inspect_text(*scan.file).size() + inspect_json(scan).size(), 0U);
  }
  try {
    EXPECT_GT(touch(*GgufFile::open(path)), 0U);
    EXPECT_FALSE(scan.error.has_value());
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    EXPECT_TRUE(scan.error.has_value());
    return false;
  }
}

TEST(DamagedFile, IsRefusedWhenCutAtAnyLength) {
  const MemoryFile file;
  const std::string whole = sample();
  const std::size_t padding = 32 - 3 * sizeof(float);  // after the last tensor: may be absent
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const bool accepted = try_bytes(file, whole.substr(0, length));
    ASSERT_EQ(accepted, length >= whole.size() - padding) << "cut at byte " << length;
  }
}

TEST(DamagedFile, NeverCrashesWithRandomBytesChanged) {
  const MemoryFile file;
  const std::string whole = sample();
  std::mt19937 random(20260101);
  int accepted = 0;
  constexpr int kFiles = 4000;
  for (int i = 0; i < kFiles; ++i) {
    std::string bytes = whole;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    accepted += try_bytes(file, bytes) ? 1 : 0;
  }
  // Both outcomes occur, or the mutations test nothing.
  EXPECT_GT(accepted, kFiles / 20);
  EXPECT_LT(accepted, kFiles * 19 / 20);
}

// Values that lie at the edges of integer arithmetic, at every place of the header and directory.
TEST(DamagedFile, NeverCrashesWithEdgeValuesAtAnyPlace) {
  const MemoryFile file;
  const std::string whole = sample();
  const std::vector<std::uint64_t> edges = {0,          ~0ULL,      1ULL << 63, (1ULL << 63) - 1,
                                            1ULL << 60, 1ULL << 32, 0xFFFFFFFFU};
  for (std::size_t at = 4; at + 8 <= whole.size() - 512; ++at) {
    std::string bytes = whole;
    const std::uint64_t edge = edges[at % edges.size()];
    std::memcpy(bytes.data() + at, &edge, sizeof edge);
    try_bytes(file, bytes);
  }
}

}  // namespace
}  // namespace dllm
