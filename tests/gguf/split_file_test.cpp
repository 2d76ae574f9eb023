// Models split over several files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "error_of.hpp"
#include "gguf_writer.hpp"

namespace dllm {
namespace {

using test::GgufWriter;
using testing::AllOf;
using testing::HasSubstr;

// Three parts with one tensor each ("t0", "t1", "t2"; 32 bytes of '0', '1', '2').
class SplitFile : public testing::Test {
 protected:
  SplitFile() {
    for (std::uint16_t i = 0; i < 3; ++i) {
      parts_.emplace_back();
      if (i == 0) parts_[0].set("general.architecture", "llada");
      const std::string content(32, static_cast<char>('0' + i));
      parts_[i].set("split.no", i).set("split.count", std::uint16_t{3});
      parts_[i].set("split.tensors.count", std::int32_t{3});
      parts_[i].add_tensor("t" + std::to_string(i), DType::f32, {8},
                           std::as_bytes(std::span(content)));
    }
  }

  static std::string name_of(int number) {
    return "model-0000" + std::to_string(number) + "-of-00003.gguf";
  }
  std::filesystem::path first() const { return dir_.path() / name_of(1); }

  void write_all() const {
    for (int i = 0; i < 3; ++i) parts_[i].write(dir_.path() / name_of(i + 1));
  }

  // Replaces a key of one part.
  template <typename T>
  void change(int part, const std::string& key, T value) {
    std::erase_if(parts_[part].entries, [&](const auto& entry) { return entry.key == key; });
    parts_[part].set(key, value);
  }

  std::string error_of(const std::filesystem::path& path) const {
    return test::message_of([&] { GgufFile::open(path); }, ErrorCode::bad_file);
  }

  test::TemporaryDirectory dir_;
  std::vector<GgufWriter> parts_;
};

TEST_F(SplitFile, ReadsAllPartsFromTheFirst) {
  write_all();
  const auto file = GgufFile::open(first());
  ASSERT_EQ(file->tensors().size(), 3U);
  for (int i = 0; i < 3; ++i) {
    const TensorInfo& tensor = file->tensor("t" + std::to_string(i));
    EXPECT_EQ(tensor.part, static_cast<std::uint32_t>(i));
    for (const std::byte b : file->data(tensor)) EXPECT_EQ(static_cast<char>(b), '0' + i);
  }
  EXPECT_EQ(file->get_string("general.architecture"), "llada");
  EXPECT_EQ(file->parts().size(), 3U);
  EXPECT_EQ(file->parts()[2].path.filename(), name_of(3));
  EXPECT_EQ(file->file_bytes(), parts_[0].to_bytes().size() + parts_[1].to_bytes().size() +
                                    parts_[2].to_bytes().size());
}

TEST_F(SplitFile, TakesTheKeysInAnyIntegerWidth) {
  for (int i = 0; i < 3; ++i) {
    change(i, "split.no", static_cast<std::int64_t>(i));
    change(i, "split.count", std::uint32_t{3});
    change(i, "split.tensors.count", std::uint64_t{3});
  }
  write_all();
  EXPECT_EQ(GgufFile::open(first())->tensors().size(), 3U);
}

TEST_F(SplitFile, EachPartHasItsOwnAlignment) {
  parts_[1].alignment = 128;
  parts_[1].set("general.alignment", std::uint32_t{128});
  write_all();
  const auto file = GgufFile::open(first());
  EXPECT_EQ(static_cast<char>(file->data(file->tensor("t1"))[0]), '1');
}

TEST_F(SplitFile, OpensWithARelativePath) {
  write_all();
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  const auto file = GgufFile::open(name_of(1));
  std::filesystem::current_path(before);
  EXPECT_EQ(file->tensors().size(), 3U);
}

TEST_F(SplitFile, NamesTheMissingPart) {
  write_all();
  std::filesystem::remove(dir_.path() / name_of(2));
  EXPECT_THAT(error_of(first()), AllOf(HasSubstr("part 2 of 3"), HasSubstr("is missing"),
                                       HasSubstr("model-00002-of-00003.gguf")));
}

TEST_F(SplitFile, SaysWhichFileToOpenWhenALaterPartIsGiven) {
  write_all();
  EXPECT_THAT(error_of(dir_.path() / name_of(2)),
              AllOf(HasSubstr("part 2 of 3"), HasSubstr("open the first part"),
                    HasSubstr("model-00001-of-00003.gguf")));
}

TEST_F(SplitFile, SaysThatARenamedPartLostItsName) {
  parts_[0].write(dir_.path() / "renamed.gguf");
  EXPECT_THAT(error_of(dir_.path() / "renamed.gguf"),
              AllOf(HasSubstr("part 1 of 3"), HasSubstr("-00001-of-00003.gguf")));
}

TEST_F(SplitFile, RefusesANameThatContradictsTheKeys) {
  parts_[0].write(dir_.path() / "model-00001-of-00002.gguf");
  EXPECT_THAT(error_of(dir_.path() / "model-00001-of-00002.gguf"),
              AllOf(HasSubstr("part 1 of 2"), HasSubstr("part 1 of 3")));
}

TEST_F(SplitFile, RefusesPartsInTheWrongOrder) {
  std::swap(parts_[1], parts_[2]);
  write_all();
  EXPECT_THAT(error_of(first()), AllOf(HasSubstr("name says part 2"), HasSubstr("says part 3")));
}

TEST_F(SplitFile, RefusesAPartWithoutItsNumber) {
  std::erase_if(parts_[1].entries, [](const auto& entry) { return entry.key == "split.no"; });
  write_all();
  EXPECT_THAT(error_of(first()), HasSubstr("\"split.no\" is missing"));
}

TEST_F(SplitFile, RefusesAPartOfAnotherSplit) {
  change(2, "split.count", std::uint16_t{4});
  write_all();
  EXPECT_THAT(error_of(first()), AllOf(HasSubstr("split.count is 4"), HasSubstr("says 3")));
}

TEST_F(SplitFile, RefusesAWrongTotalOfTensors) {
  for (int i = 0; i < 3; ++i) change(i, "split.tensors.count", std::int32_t{5});
  write_all();
  EXPECT_THAT(error_of(first()), AllOf(HasSubstr("split.tensors.count is 5"), HasSubstr("hold 3")));
}

TEST_F(SplitFile, RefusesATensorThatOccursInTwoParts) {
  parts_[2].tensor("t2").name = "t0";
  write_all();
  EXPECT_THAT(error_of(first()),
              AllOf(HasSubstr("\"t0\""), HasSubstr("part 1"), HasSubstr("part 3")));
}

TEST_F(SplitFile, RefusesKeysOfTheWrongKind) {
  change(0, "split.count", "three");
  write_all();
  EXPECT_THAT(error_of(first()), AllOf(HasSubstr("split.count"), HasSubstr("string")));
  change(0, "split.count", std::int32_t{-3});
  write_all();
  EXPECT_THAT(error_of(first()), HasSubstr("\"split.count\" is -3"));
}

TEST_F(SplitFile, ALaterPartWithKeysOfTheWrongKindIsAnErrorToo) {
  change(1, "split.no", "one");
  write_all();
  EXPECT_THAT(error_of(first()), AllOf(HasSubstr("split.no"), HasSubstr("string"),
                                       HasSubstr("model-00002-of-00003.gguf")));
}

TEST_F(SplitFile, AHugePartCountStopsAtTheFirstMissingPart) {
  const std::string name = "model-00001-of-65535.gguf";
  change(0, "split.count", std::uint16_t{65535});
  parts_[0].write(dir_.path() / name);
  EXPECT_THAT(error_of(dir_.path() / name), HasSubstr("model-00002-of-65535.gguf"));
  change(0, "split.count", std::uint64_t{1} << 60);
  parts_[0].write(dir_.path() / name);
  EXPECT_THAT(error_of(dir_.path() / name), HasSubstr("1152921504606846976"));
}

TEST_F(SplitFile, ABrokenLaterPartIsNamed) {
  write_all();
  test::write_file(dir_.path() / name_of(3), "GGUF");
  EXPECT_THAT(error_of(first()), HasSubstr("model-00003-of-00003.gguf"));
}

TEST_F(SplitFile, APartThatIsADirectoryIsNamed) {
  write_all();
  std::filesystem::remove(dir_.path() / name_of(2));
  std::filesystem::create_directory(dir_.path() / name_of(2));
  EXPECT_THAT(error_of(first()), AllOf(HasSubstr("directory"), HasSubstr("00002-of-00003")));
}

TEST_F(SplitFile, ASplitOfOnePartMayHaveAnyName) {
  GgufWriter writer;
  writer.set("split.no", std::uint16_t{0}).set("split.count", std::uint16_t{1});
  writer.add_zeros("a", DType::f32, {4}).write(dir_.path() / "single.gguf");
  EXPECT_EQ(GgufFile::open(dir_.path() / "single.gguf")->tensors().size(), 1U);
}

TEST_F(SplitFile, AScanListsThePartsThatAreThere) {
  write_all();
  std::filesystem::remove(dir_.path() / name_of(3));
  const GgufScan scan = GgufFile::scan(first());
  ASSERT_TRUE(scan.error.has_value());
  EXPECT_THAT(scan.error->what(), HasSubstr("part 3 of 3"));
  EXPECT_EQ(scan.file->tensors().size(), 2U);
}

}  // namespace
}  // namespace dllm
