// `dllm plugins` as text and as JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dllm/plugins_report.hpp"
#include "plugin_folder.hpp"

namespace dllm::test {
namespace {

using testing::HasSubstr;

class PluginsReport : public testing::Test {
 protected:
  PluginsReport() {
    folder_.add("whole", "a.so");
    folder_.add("absent", "b.so");
    folder_.add("two_architectures", "c.so");
    folder_.add("major_2", "d.so");
    write_file(folder_.path() / "e\x1b[1m\xff.so", "text");
    registry_ = &folder_.scan();
  }
  std::string path(const char* name) { return (folder_.path() / name).string(); }

  PluginFolder folder_;
  const PluginRegistry* registry_ = nullptr;
};

TEST_F(PluginsReport, JsonHasTheDocumentedForm) {
  const auto json = nlohmann::json::parse(plugins_json(*registry_));
  const auto& plugins = json.at("plugins");
  ASSERT_EQ(plugins.size(), 5u);
  EXPECT_EQ(plugins[0], nlohmann::json::parse(R"({
    "kind": "sampler", "id": "left_to_right", "version": "1.2.3", "status": "ok", "reason": "",
    "summary": "commits from left to right", "options": [
      {"name": "at_once", "type": "integer", "default": "1", "range": "an integer from 1 to 64",
       "help": "positions a step"}], "presets": [], "path": ")" +
                                              path("a.so") + "\"}"));
  EXPECT_EQ(plugins[1].at("status"), "ok");
  EXPECT_EQ(plugins[1].at("usable"), false);
  EXPECT_EQ(plugins[1].at("reason"), "no such device");
  EXPECT_EQ(plugins[2].at("architectures"), nlohmann::json({"fake_a", "fake_b"}));
  EXPECT_EQ(plugins[3].at("status"), "refused");
  EXPECT_EQ(plugins[3].at("kind"), "sampler");
  EXPECT_EQ(plugins[3].at("id"), "");
  EXPECT_EQ(plugins[3].at("reason"),
            "built for plugin ABI 2.0, this runtime speaks 1.0. Fix: rebuild against "
            "DllmPluginSdk 1.x.");
  EXPECT_EQ(plugins[4].at("kind"), "unknown");
  EXPECT_EQ(json.at("folders"), nlohmann::json({folder_.path().string()}));
}

TEST_F(PluginsReport, TextListsAcceptedWithOptionsThenRefusedWithReasons) {
  const std::string text = plugins_text(*registry_);
  EXPECT_THAT(text,
              HasSubstr("sampler left_to_right 1.2.3: commits from left to right\n    from " +
                        path("a.so") +
                        "\n    at_once  an integer from 1 to 64, default 1; positions a step\n"));
  EXPECT_THAT(text, HasSubstr("backend absent 1.0.0: a backend for tests\n    from " +
                              path("b.so") + "\n    cannot run here: no such device\n"));
  EXPECT_THAT(text, HasSubstr("\n    architectures fake_a, fake_b\n"));
  EXPECT_THAT(text, HasSubstr("\nrefused " + path("d.so") + ": built for plugin ABI 2.0"));
  EXPECT_THAT(text, HasSubstr("\nsearched " + folder_.path().string() + "\n"));
  EXPECT_THAT(text, testing::EndsWith("\n"));
}

TEST_F(PluginsReport, NamesOfFilesCannotSendEscapesToTheTerminal) {
  const std::string text = plugins_text(*registry_);
  EXPECT_THAT(text, HasSubstr("e?[1m?.so: not an ELF file"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(PluginsReport, ABackendThatCannotRunHereIsAmongTheDevicesWithItsReason) {
  EXPECT_EQ(devices_text(*registry_), "absent: not usable: no such device\n");
  EXPECT_EQ(devices_json(*registry_),
            R"({"backends":[{"backend":"absent","usable":false,"reason":"no such device",)"
            R"("devices":[]}]})");
}

TEST(EmptyPluginsReport, SaysThatNothingWasFound) {
  PluginFolder folder;
  EXPECT_EQ(plugins_text(folder.scan()),
            "no plugins were found\nsearched " + folder.path().string() + "\n");
  EXPECT_EQ(nlohmann::json::parse(plugins_json(folder.scan())).at("plugins").size(), 0u);
}

}  // namespace
}  // namespace dllm::test
