// What the fuzz targets share. A target is one file that defines LLVMFuzzerTestOneInput and states
// in FUZZ_REQUIRE what must hold for any bytes; anything but dllm::Error leaves it and ends it.
//
// With clang's libFuzzer (-DDLLM_FUZZ=ON) it searches for such bytes; without, replay_main.cpp
// plays the files of folders through it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "dllm/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dllm::test {

[[noreturn]] inline void property_failed(const char* property, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, property);
  std::abort();
}

#define FUZZ_REQUIRE(property) \
  ((property) ? static_cast<void>(0) : ::dllm::test::property_failed(#property, __FILE__, __LINE__))

/// The Error that `call` throws, if it does. Ours to answer for: a message in one line, and never
/// our own mistake (ErrorCode::internal). Other exceptions pass and end the target.
template <typename Call>
std::optional<Error> refusal_of(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    FUZZ_REQUIRE(error.code() != ErrorCode::internal);
    FUZZ_REQUIRE(!error.fact().empty());
    return error;
  }
  return std::nullopt;
}

/// Takes values from an input's bytes; zeros when they are used up.
class ByteReader {
 public:
  ByteReader(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  bool empty() const { return bytes_.empty(); }

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::size_t n = std::min(sizeof value, bytes_.size());
    if (n > 0) std::memcpy(&value, bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
    return value;
  }

  std::uint8_t byte() { return take<std::uint8_t>(); }
  bool flag() { return (byte() & 1) != 0; }
  /// 0 to n - 1, from one byte.
  std::uint32_t below(std::uint32_t n) { return byte() % n; }

  template <typename T, std::size_t N>
  const T& pick(const T (&values)[N]) {
    return values[below(N)];
  }

  /// A length byte, then that many bytes, `most` at most.
  std::string text(std::uint32_t most) { return cut(below(most + 1)); }
  std::string rest() { return cut(bytes_.size()); }

 private:
  std::string cut(std::size_t n) {
    n = std::min(n, bytes_.size());
    std::string out(reinterpret_cast<const char*>(bytes_.data()), n);
    bytes_ = bytes_.subspan(n);
    return out;
  }

  std::span<const std::uint8_t> bytes_;
};

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace dllm::test
