// Where plugins are looked for, and in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "dllm/error.hpp"
#include "error_of.hpp"
#include "plugin_folder.hpp"

namespace dllm::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

fs::path make(const fs::path& folder) {
  fs::create_directories(folder);
  return folder;
}

const fs::path kBuildTree = fs::canonical(fs::path(DLLM_TEST_BINARY_DIR)) / "lib/dllm/plugins";

TEST(PluginFolders, OptionThenEnvironmentThenOwnTreeThenHome) {
  TemporaryDirectory t;
  const std::vector<fs::path> extra = {make(t.path() / "option_a"), make(t.path() / "option_b")};
  const fs::path one = make(t.path() / "one");
  const fs::path two = make(t.path() / "two");
  const fs::path home = make(t.path() / "home/.local/lib/dllm/plugins");
  make(kBuildTree);
  const Variable path("DLLM_PLUGIN_PATH", one.string() + ":/no/such/folder:" + two.string());
  const Variable home_variable("HOME", (t.path() / "home").string());
  EXPECT_THAT(default_plugin_folders(extra),
              testing::ElementsAre(extra[0], extra[1], one, two, kBuildTree, home));
}

TEST(PluginFolders, NeverTheCurrentDirectory) {
  TemporaryDirectory t;
  const fs::path before = fs::current_path();
  fs::current_path(t.path());
  // An empty part of a search path means the current directory elsewhere.
  const Variable path("DLLM_PLUGIN_PATH", ":" + make(t.path() / "one").string() + "::");
  const Variable home("HOME", "");
  const auto folders = default_plugin_folders({});
  fs::current_path(before);
  EXPECT_THAT(folders, testing::Contains(t.path() / "one"));
  EXPECT_THAT(folders, testing::Not(testing::Contains(t.path())));
}

TEST(PluginFolders, EachOnceHoweverItIsSpelt) {
  TemporaryDirectory t;
  const fs::path one = make(t.path() / "one");
  fs::create_directory_symlink(one, t.path() / "link");
  const std::vector<fs::path> extra = {one, t.path() / "link", t.path() / "one/../one/"};
  const Variable path("DLLM_PLUGIN_PATH", one.string());
  const auto folders = default_plugin_folders(extra);
  EXPECT_EQ(std::count(folders.begin(), folders.end(), one), 1);
  EXPECT_THAT(folders, testing::Not(testing::Contains(t.path() / "link")));
}

TEST(PluginFolders, AMissingOneThatWasAskedForIsBadUsage) {
  TemporaryDirectory t;
  write_file(t.path() / "file", "x");
  for (const char* name : {"missing", "file"}) {
    const std::vector<fs::path> extra = {t.path() / name};
    const Error error = error_of([&] { default_plugin_folders(extra); });
    EXPECT_EQ(error.code(), ErrorCode::bad_usage);
    EXPECT_THAT(error.fact(), HasSubstr((t.path() / name).string()));
    EXPECT_EQ(error.where(), "--plugin-dir");
  }
}

}  // namespace
}  // namespace dllm::test
