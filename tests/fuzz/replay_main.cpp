// Plays files through a fuzz target, for compilers without libFuzzer.
//
//   fuzz_config seeds/config corpus/config     # folders or files; every file once
//
// Ends with status 0 when all files passed; says how many there were. None at all is a failure.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "fuzz_target.hpp"
#include "temporary_files.hpp"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

// An allocation of its own, exactly as long as the file: a sanitizer sees a read past its end.
void play(const fs::path& file) {
  const std::string bytes = dllm::test::read_file(file);
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  std::fprintf(stderr, "%s\n", file.c_str());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<fs::path> files = files_of(argc, argv);
  for (const fs::path& file : files) play(file);
  std::printf("%zu inputs passed\n", files.size());
  return files.empty() ? 1 : 0;
}
