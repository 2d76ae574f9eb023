// A file that is complete or absent: it is written beside its place under another name, then
// renamed.
//
//   CompleteFile file("x.bin", "--out");
//   file.stream() << bytes;
//   file.keep();
//
// Thread rule: one thread per file.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <iosfwd>
#include <string>

namespace dllm::cli {

/// Where a path leads, also one at which nothing is yet: links followed, dots taken away. So that
/// renaming replaces the file and not the link. Of a circle of links, one of them.
std::filesystem::path followed(std::filesystem::path path);

/// The name under which what belongs to `target` lies until it is whole: NAME.PID.part beside it,
/// NAME cut where the whole would be longer than a file's name may be.
std::filesystem::path unfinished(const std::filesystem::path& target);

class CompleteFile {
 public:
  /// Opens it for writing. `option` names it in messages. What is there and is no regular file (a
  /// pipe, a device) is written to directly: it cannot be left half written, nor be renamed over.
  /// Throws Error (bad_usage) with the system's reason when it cannot be opened.
  CompleteFile(const std::string& path, std::string option);
  CompleteFile(const CompleteFile&) = delete;
  CompleteFile& operator=(const CompleteFile&) = delete;
  /// Without keep() nothing remains of it, and what was in its place before is untouched.
  ~CompleteFile();

  std::ostream& stream() { return out_; }
  /// Puts it in its place. Throws Error (resource) with the system's reason when any byte could not
  /// be written.
  void keep();

 private:
  [[noreturn]] void refuse(const std::string& reason) const;

  std::string target_;
  std::string option_;
  std::string written_;  ///< the name it is written under; empty once nothing is to be removed
  std::ofstream out_;
};

/// The whole of it in one call. Throws as CompleteFile does.
void write_complete_file(const std::string& path, const std::string& option,
                         const std::function<void(std::ostream&)>& write);

/// What can be found wrong before any work: a folder that is none, a name that is too long, a place
/// that may not be written. It is found by trying; nothing remains. Pipes and devices pass. Throws
/// Error (bad_usage).
void check_output_file(const std::string& path, const std::string& option);

/// The same where nothing but a file will do: standard output and what is there and no file are
/// refused too. `content` is what the message calls it ("logits").
void check_complete_file(const std::string& path, const std::string& option,
                         const std::string& content);

}  // namespace dllm::cli
