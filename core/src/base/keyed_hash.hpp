// Hashes whose collisions nobody can prepare: keyed with a number drawn once per process. For
// tables over what a file holds; nothing that anyone sees may depend on the values.
//
//   std::size_t slot = keyed_hash(bytes) & mask;
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dllm {

struct HashKey {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

/// This process's key. From the system's random numbers; where it has none, from where the loader
/// put the stack.
const HashKey& hash_key() noexcept;

/// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) under `key`.
std::uint64_t sip_hash(std::string_view bytes, const HashKey& key) noexcept;

inline std::uint64_t keyed_hash(std::string_view bytes) noexcept {
  return sip_hash(bytes, hash_key());
}

/// For containers of the standard library.
struct KeyedHash {
  std::size_t operator()(std::string_view bytes) const noexcept { return keyed_hash(bytes); }
};

}  // namespace dllm
