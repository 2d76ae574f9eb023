// Faults of a file: how they are worded and whether reading goes on after one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "dllm/error.hpp"

namespace dllm::gguf {

/// `bytes` on one line for a message: quoted, control bytes and ill-formed UTF-8 as \xNN, cut when
/// long. Names in a hostile file can hold anything.
std::string in_quotes(std::string_view bytes);

/// The same without quotes and never cut.
std::string one_line(std::string_view bytes);
std::string printable_path(const std::filesystem::path& path);

/// Where the first fault goes. Opening a model stops at it; a scan keeps it and reads on where the
/// structure still allows, so that a broken file can be looked at.
class Faults {
 public:
  explicit Faults(bool keep_going) : keep_going_(keep_going) {}

  /// Throws `error`, or keeps it when it is the first one of a scan.
  void report(Error error) {
    if (!keep_going_) throw error;
    if (!first_) first_ = std::move(error);
  }
  bool keep_going() const { return keep_going_; }
  const std::optional<Error>& first() const { return first_; }

 private:
  bool keep_going_;
  std::optional<Error> first_;
};

}  // namespace dllm::gguf
