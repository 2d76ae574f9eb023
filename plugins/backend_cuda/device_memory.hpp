// Owned memory: on the device, and page-locked on the host.
//
//   DeviceMemory codes(bytes, "weight blk.0.attn_q.weight");
//   codes.as<std::uint8_t>();
//
// Thread rule: values; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dllm::cuda {

/// On the device. Throws Error (resource) with the bytes needed and free.
struct OnDevice {
  static void* allocate(std::uint64_t bytes, const std::string& what);
  static void release(void* data) noexcept;
};

/// Page-locked on the host: what copies that run beside the host need.
struct PinnedOnHost {
  static void* allocate(std::uint64_t bytes, const std::string& what);
  static void release(void* data) noexcept;
};

/// A stretch of memory of one kind, uninitialised; no bytes need no memory.
template <typename Kind>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  /// `what` is named when the memory cannot be had.
  OwnedMemory(std::uint64_t bytes, const std::string& what)
      : data_(bytes == 0 ? nullptr : Kind::allocate(bytes, what)), bytes_(bytes) {}
  OwnedMemory(OwnedMemory&& other) noexcept { *this = std::move(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OwnedMemory() {
    if (data_) Kind::release(data_);
  }

  /// Borrowed; null where there are no bytes.
  template <typename T>
  T* as() const noexcept {
    return static_cast<T*>(data_);
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

using DeviceMemory = OwnedMemory<OnDevice>;
using PinnedMemory = OwnedMemory<PinnedOnHost>;

/// Bytes that can be allocated now on the current device, and all it has.
struct DeviceFree {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};
DeviceFree device_free();

}  // namespace dllm::cuda
