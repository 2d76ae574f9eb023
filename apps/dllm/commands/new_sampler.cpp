// dllm new-sampler NAME: a project outside dllm's tree that builds, tests and installs a sampler.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "commands/commands.hpp"
#include "dllm/error.hpp"
#include "dllm/plugin.hpp"
#include "generated/sampler_template.hpp"
#include "output/complete_file.hpp"
#include "output/json.hpp"

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

// An id of the descriptor (31 bytes) that is also a C++ identifier and a CMake target.
constexpr std::size_t kMaxName = 24;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName && is_lower(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

// "Top-K Margin" -> "top_k_margin"; empty where nothing is left.
std::string suggested_name(const std::string& typed) {
  std::string name;
  for (const char c : typed) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (is_lower(lower) || (is_digit(lower) && !name.empty())) {
      name += lower;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  name.resize(std::min(name.size(), kMaxName));
  while (name.ends_with('_')) name.pop_back();
  return name;
}

void check_name(const std::string& name) {
  if (name == "auto") {
    throw Error(ErrorCode::bad_usage, "'auto' is no name for a sampler", "NAME",
                "choose another: --sampler auto is the sampler that a model recommends");
  }
  if (is_name(name)) return;
  const std::string near = suggested_name(name);
  throw Error(ErrorCode::bad_usage, fmt::format("'{}' is no name for a sampler", name), "NAME",
              fmt::format("use 1 to {} of a-z, 0-9 and _, a letter first{}", kMaxName,
                          near.empty() ? "" : fmt::format(": {}", near)));
}

// "topk_margin" -> "TopkMargin".
std::string class_name(const std::string& name) {
  std::string out;
  bool starts_word = true;
  for (const char c : name) {
    if (c == '_') {
      starts_word = true;
      continue;
    }
    out += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts_word = false;
  }
  return out;
}

std::string replaced(std::string text, std::string_view word, std::string_view by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    text.replace(at, word.size(), by);
    at += by.size();
  }
  return text;
}

// Of two samplers with one id the later in the search is refused, so the new one would never run.
// What lies in the user's own folder may be an older state of the same project.
void refuse_taken_id(const std::string& name) {
  for (const fs::path& folder : default_plugin_folders({})) {
    std::error_code code;
    if (fs::equivalent(folder, user_plugin_folder(), code)) continue;
    for (fs::directory_iterator entry(folder, code), end; !code && entry != end;
         entry.increment(code)) {
      if (entry->path().extension() != ".so") continue;
      const PluginRecord found = inspect_plugin(entry->path());
      if (found.kind != PluginKind::sampler || found.id != name) continue;
      throw Error(ErrorCode::bad_usage, fmt::format("there is a sampler '{}' already", name),
                  found.path.string(), "choose another name: of two the second is refused");
    }
  }
}

void refuse_taken_place(const fs::path& folder) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(folder, code)) || fs::is_empty(folder, code)) return;
  throw Error(ErrorCode::bad_usage, fmt::format("'{}' exists already", folder.string()), "--folder",
              "give another folder with --folder, or another name");
}

// A folder that is complete or absent: it is filled beside its place under another name, then
// renamed.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& target) : target_(target) {
    refuse_taken_place(target_);
    // Written with a slash behind it, it has no name of its own.
    filled_ = unfinished(target_.has_filename() ? target_ : target_.parent_path());
    std::error_code code;
    fs::create_directories(filled_, code);
    if (code) refuse(ErrorCode::bad_usage, code);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;  // nothing else can be done about it here
    if (!kept_) fs::remove_all(filled_, ignored);
  }
  const fs::path& path() const { return filled_; }
  void keep() {
    std::error_code code;
    fs::rename(filled_, target_, code);  // takes the place of an empty folder
    if (code) refuse(ErrorCode::resource, code);
    kept_ = true;
  }

 private:
  [[noreturn]] void refuse(ErrorCode kind, const std::error_code& code) const {
    throw Error(kind, fmt::format("cannot make '{}': {}", target_.string(), code.message()),
                "--folder", "give a folder that can be written");
  }

  fs::path target_;
  fs::path filled_;
  bool kept_ = false;
};

void write_file(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (out) return;
  throw Error(ErrorCode::resource,
              fmt::format("cannot write '{}': {}", path.string(), std::strerror(errno)), "--folder",
              "free space, or give a folder that can be written");
}

// Where this program was installed, if the SDK lies beside it: cmake may need to be told.
std::string sdk_prefix() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  const fs::path prefix = program.parent_path().parent_path();
  if (code || !fs::exists(prefix / "lib/cmake/DllmPluginSdk", code)) return {};
  return prefix.string();
}

// In a form a shell takes as one word.
std::string quoted(const std::string& path) {
  const bool plain = std::ranges::all_of(path, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("/._-+", c) != nullptr;
  });
  return plain ? path : fmt::format("'{}'", replaced(path, "'", "'\\''"));
}

}  // namespace

int new_sampler_command(const Settings& settings, Console& console) {
  const std::string name = settings.text("name");
  if (name.empty()) {
    throw Error(ErrorCode::bad_usage, "the sampler has no name", "command line",
                "write `dllm new-sampler NAME`");
  }
  check_name(name);
  refuse_taken_id(name);
  const std::string given = settings.text("folder");
  const fs::path folder = given.empty() ? fs::path("sampler_" + name) : fs::path(given);
  NewFolder made(folder);
  Json files = Json::array();
  for (const TemplateFile& file : kSamplerTemplate) {
    const std::string file_name = replaced(std::string(file.name), "NAME", name);
    const std::string text = replaced(std::string(file.text), "@Class@", class_name(name));
    write_file(made.path() / file_name, replaced(text, "@name@", name));
    files.push_back(file_name);
  }
  made.keep();
  write_answer(settings.flag("json")
                   ? dump_line({{"folder", folder.string()}, {"files", files}}) + "\n"
                   : folder.string() + "\n");
  const std::string prefix = sdk_prefix();
  console.note(fmt::format(
      "next: cd {} && cmake -G Ninja -B build{} && cmake --build build && "
      "ctest --test-dir build",
      quoted(folder.string()), prefix.empty() ? "" : " -DCMAKE_PREFIX_PATH=" + quoted(prefix)));
  return 0;
}

}  // namespace dllm::cli
