// A file that is complete or absent: it is written beside its place under another name, then
// renamed.
//
//   write_complete_file("x.bin", "--out", [&](std::ostream& out) { out << bytes; });
//
// Thread rule: pure functions; one thread per file.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace dllm::cli {

/// Throws Error (resource) naming `option` with the system's reason when it cannot be written.
void write_complete_file(const std::string& path, const std::string& option,
                         const std::function<void(std::ostream&)>& write);

/// What can be found wrong before any work: standard output, a missing folder, a place that is
/// taken by something that is no file or may not be written. Throws Error (bad_usage); `content`
/// is what the message calls it ("logits").
void check_complete_file(const std::string& path, const std::string& option,
                         const std::string& content);

}  // namespace dllm::cli
