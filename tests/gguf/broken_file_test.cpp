// One broken file per fault: the error is one line that names the item and both values. The files
// and what each error must say are written by tests/support/broken_gguf.py; the conformance suite
// holds whole programs to the same table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "error_of.hpp"
#include "temporary_files.hpp"

namespace dllm {
namespace {

const std::filesystem::path kFolder = DLLM_BROKEN_FILES;

struct Broken {
  std::string name;
  std::string fault;
  std::vector<std::string> says;  ///< fragments of the message

  friend void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.fault; }
};

std::vector<Broken> all_faults() {
  std::vector<Broken> faults;
  const std::string manifest = test::read_file(kFolder / "manifest.json");
  for (const auto& entry : nlohmann::json::parse(manifest)) {
    faults.push_back({entry.at("name"), entry.at("fault"), entry.at("says")});
  }
  return faults;
}

class BrokenFile : public testing::TestWithParam<Broken> {
 protected:
  std::filesystem::path path() const { return kFolder / (GetParam().name + ".gguf"); }
};

TEST_P(BrokenFile, IsRefusedInOneLineThatNamesTheFault) {
  const Error error = test::error_of([&] { GgufFile::open(path()); });
  EXPECT_EQ(error.code(), ErrorCode::bad_file);
  const std::string message = error.what();
  for (const std::string& part : GetParam().says) EXPECT_THAT(message, testing::HasSubstr(part));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().name + ".gguf"));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
  EXPECT_FALSE(error.fix().empty());
}

// The command line shows a broken file with the same error that running it gives.
TEST_P(BrokenFile, ScansWithTheSameErrorThatOpenThrows) {
  const GgufScan scan = GgufFile::scan(path());
  ASSERT_TRUE(scan.error.has_value());
  const Error error = test::error_of([&] { GgufFile::open(path()); });
  EXPECT_STREQ(scan.error->what(), error.what());
}

INSTANTIATE_TEST_SUITE_P(All, BrokenFile, testing::ValuesIn(all_faults()),
                         [](const auto& info) { return info.param.name; });

TEST(BrokenFiles, TheCorrectFileTheyStartFromLoads) {
  EXPECT_EQ(GgufFile::open(kFolder / "correct.gguf")->tensors().size(), 2U);
}

TEST(BrokenFiles, AreAtLeastSixty) { EXPECT_GE(all_faults().size(), 60U); }

}  // namespace
}  // namespace dllm
