#include "base/keyed_hash.hpp"

#include <sys/random.h>

#include <bit>
#include <cstring>

namespace dllm {
namespace {

HashKey draw_key() noexcept {
  HashKey key;
  if (::getrandom(&key, sizeof key, GRND_NONBLOCK) == sizeof key) return key;
  key.first = reinterpret_cast<std::uintptr_t>(&key);
  key.second = reinterpret_cast<std::uintptr_t>(&draw_key);
  return key;
}

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() noexcept {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) noexcept {
    v3 ^= word;
    round();
    v0 ^= word;
  }
};

// The `n` bytes at `bytes`, at most 8, little-endian.
std::uint64_t word_of(const char* bytes, std::size_t n) noexcept {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, n);
  return word;
}

}  // namespace

const HashKey& hash_key() noexcept {
  static const HashKey key = draw_key();
  return key;
}

std::uint64_t sip_hash(std::string_view bytes, const HashKey& key) noexcept {
  SipState state{key.first ^ 0x736f6d6570736575u, key.second ^ 0x646f72616e646f6du,
                 key.first ^ 0x6c7967656e657261u, key.second ^ 0x7465646279746573u};
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state.take(word_of(bytes.data() + at, 8));
  const std::size_t rest = bytes.size() - at;
  const std::uint64_t tail = rest == 0 ? 0 : word_of(bytes.data() + at, rest);
  state.take(std::uint64_t{bytes.size()} << 56 | tail);
  state.v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace dllm
