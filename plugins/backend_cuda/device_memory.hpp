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

class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Uninitialised. Throws Error (resource) with the bytes needed and free.
  DeviceMemory(std::uint64_t bytes, const std::string& what);
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();

  template <typename T>
  T* as() const noexcept {
    return static_cast<T*>(data_);
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Page-locked host memory: what copies that run beside the host need.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(std::uint64_t bytes, const std::string& what);
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedMemory();

  template <typename T>
  T* as() const noexcept {
    return static_cast<T*>(data_);
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Bytes that can be allocated now on the current device, and all it has.
struct DeviceFree {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};
DeviceFree device_free();

}  // namespace dllm::cuda
