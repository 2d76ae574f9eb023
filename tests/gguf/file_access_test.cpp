// Paths that are no model file, and hostile files that ask for more than they hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "error_of.hpp"
#include "gguf_writer.hpp"
#include "without_root.hpp"

namespace dllm {
namespace {

using test::ByteSink;
using test::GgufWriter;
using testing::HasSubstr;

std::string open_error(const std::filesystem::path& path) {
  return test::message_of([&] { GgufFile::open(path); }, ErrorCode::bad_file);
}

TEST(FileAccess, NamesAMissingFile) {
  const test::TemporaryDirectory dir;
  const std::string error = open_error(dir.path() / "absent.gguf");
  EXPECT_THAT(error, HasSubstr("No such file"));
  EXPECT_THAT(error, HasSubstr("absent.gguf"));
}

TEST(FileAccess, SaysThatAFileIsEmpty) {
  const test::TemporaryDirectory dir;
  test::write_file(dir.path() / "m.gguf", "");
  EXPECT_THAT(open_error(dir.path() / "m.gguf"), HasSubstr("the file is empty (0 bytes)"));
}

TEST(FileAccess, SaysThatAPathIsADirectory) {
  const test::TemporaryDirectory dir;
  EXPECT_THAT(open_error(dir.path()), HasSubstr("a directory, not a file"));
}

TEST(FileAccess, RefusesANamedPipeWithoutWaitingForAWriter) {
  const test::TemporaryDirectory dir;
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(open_error(dir.path() / "pipe"), HasSubstr("a named pipe, not a file"));
}

TEST(FileAccess, RefusesADevice) {
  EXPECT_THAT(open_error("/dev/zero"), HasSubstr("a device, not a file"));
}

TEST(FileAccess, NamesAFileThatMayNotBeRead) {
  const test::TemporaryDirectory dir;
  GgufWriter().write(dir.path() / "m.gguf");
  ASSERT_EQ(::chmod((dir.path() / "m.gguf").c_str(), 0), 0);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  const test::WithoutRoot nobody;
  if (!nobody.done()) GTEST_SKIP() << "cannot stop being root";
  EXPECT_THAT(open_error(dir.path() / "m.gguf"), HasSubstr("Permission denied"));
}

TEST(FileAccess, OpensPathsThatAreNotAscii) {
  const test::TemporaryDirectory dir;
  for (const std::string name : {"modèle 模型 🙂.gguf", "latin1-\xe9.gguf", "with\nnewline.gguf"}) {
    GgufWriter().write(dir.path() / name);
    EXPECT_EQ(GgufFile::open(dir.path() / name)->path().filename(), name);
  }
}

TEST(FileAccess, MessagesStayOnOneLineWhateverThePath) {
  const test::TemporaryDirectory dir;
  EXPECT_THAT(open_error(dir.path() / "new\nline\x1b[1m.gguf"), HasSubstr("new\\x0Aline\\x1B[1m"));
}

TEST(FileAccess, FollowsASymbolicLink) {
  const test::TemporaryDirectory dir;
  GgufWriter().write(dir.path() / "m.gguf");
  std::filesystem::create_symlink("m.gguf", dir.path() / "link.gguf");
  EXPECT_EQ(GgufFile::open(dir.path() / "link.gguf")->version(), 3U);
}

long peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A file of a terabyte on paper (sparse, a few KiB on disk), so that huge counts fit inside it.
void expect_cheap_refusal(const std::string& bytes, const std::string& fragment) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "beside its shadow memory a terabyte of addresses is not always free";
#endif
  const test::TemporaryDirectory dir;
  const auto path = dir.path() / "m.gguf";
  test::write_file(path, bytes);
  std::error_code failed;
  std::filesystem::resize_file(path, 1ULL << 40, failed);
  if (failed) GTEST_SKIP() << "no sparse files here: " << failed.message();
  const long before = peak_kib();
  const std::string error = open_error(path);
  EXPECT_LT(peak_kib() - before, 100 * 1024);
  EXPECT_THAT(error, HasSubstr(fragment));
}

TEST(HostileFile, AnArrayCountThatFitsASparseFileCostsNoMemory) {
  GgufWriter writer;
  const auto array = static_cast<std::uint32_t>(MetadataType::array);
  writer.set_raw("x", array,
                 ByteSink().put<std::uint32_t>(0).put<std::uint64_t>(1ULL << 39).bytes());
  expect_cheap_refusal(writer.to_bytes(), "549755813888 elements");
}

TEST(HostileFile, AKeyCountThatFitsASparseFileCostsNoMemory) {
  GgufWriter writer;
  writer.n_keys = 1ULL << 33;
  expect_cheap_refusal(writer.to_bytes(), "metadata count is 8589934592, the limit is 65536");
}

TEST(HostileFile, ATensorCountThatFitsASparseFileCostsNoMemory) {
  GgufWriter writer;
  writer.n_tensors = 1ULL << 33;
  expect_cheap_refusal(writer.to_bytes(), "tensor count is 8589934592, the limit is 262144");
}

TEST(HostileFile, AKeyOfGigabytesIsNotCopied) {
  ByteSink sink;
  sink.put_raw("GGUF").put<std::uint32_t>(3).put<std::uint64_t>(0).put<std::uint64_t>(1);
  sink.put<std::uint64_t>(1ULL << 35);
  expect_cheap_refusal(sink.bytes(), "34359738368 bytes long, the limit is 65535");
}

TEST(HostileFile, ATensorNameOfGigabytesIsNotCopied) {
  ByteSink sink;
  sink.put_raw("GGUF").put<std::uint32_t>(3).put<std::uint64_t>(1).put<std::uint64_t>(0);
  sink.put<std::uint64_t>(1ULL << 35);
  expect_cheap_refusal(sink.bytes(), "34359738368 bytes long, the limit is 63");
}

}  // namespace
}  // namespace dllm
