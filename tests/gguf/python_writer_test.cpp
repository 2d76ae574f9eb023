// tests/support/gguf_writer.py writes what gguf_writer.hpp writes: the reader's tests cover both.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>

#include "gguf_writer.hpp"

namespace dllm {
namespace {

using test::GgufWriter;

template <typename T>
void add_both(GgufWriter& writer, const std::string& name, const T& value) {
  writer.set("scalar." + name, value);
  writer.set_array<T>("array." + name, {value, value});
}

// As write_sample.py.
GgufWriter sample() {
  GgufWriter writer;
  writer.alignment = 64;
  writer.set("general.alignment", std::uint32_t{64});
  add_both(writer, "u8", std::uint8_t{255});
  add_both(writer, "i8", std::int8_t{-128});
  add_both(writer, "u16", std::uint16_t{65535});
  add_both(writer, "i16", std::int16_t{-32768});
  add_both(writer, "u32", std::uint32_t{4294967295U});
  add_both(writer, "i32", std::numeric_limits<std::int32_t>::min());
  add_both(writer, "f32", 0.1F);
  add_both(writer, "bool", true);
  add_both(writer, "string", std::string("caf\xc3\xa9"));
  add_both(writer, "u64", std::numeric_limits<std::uint64_t>::max());
  add_both(writer, "i64", std::numeric_limits<std::int64_t>::min());
  add_both(writer, "f64", 0.1);
  writer.set("guess.int", std::uint32_t{7}).set("guess.negative", std::int32_t{-7});
  writer.set("guess.float", 1.5F).set("guess.bool", false).set("guess.text", "x");
  writer.set_array<std::string>("guess.array", {"a", "b"}).set("guess.bytes", "\xff");
  writer.add_tensor("numpy", DType::f32, {3, 2}, {0, 1, 2, 3, 4, 5});
  for (const DTypeInfo& info : all_dtypes()) {
    std::vector<std::byte> data(2 * info.block_bytes);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 251);
    writer.add_tensor("raw." + std::string(info.name), info.dtype, {info.block_size, 2}, data);
  }
  return writer;
}

TEST(PythonWriter, WritesTheBytesOfTheCppWriter) {
  const test::TemporaryDirectory dir;
  const std::string out = (dir.path() / "m.gguf").string();
  const std::string command = "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='" DLLM_TEST_SUPPORT
                              "' '" DLLM_TEST_PYTHON "' '" DLLM_TEST_DATA "/write_sample.py' '" +
                              out + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string got = test::read_file(out);
  const std::string want = sample().to_bytes();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "byte " << i;
}

}  // namespace
}  // namespace dllm
