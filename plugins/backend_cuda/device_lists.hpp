// What a step reads that the host made: buffers of activations, and lists that are written between
// steps.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "device_memory.hpp"
#include "device_rows.hpp"
#include "dllm/backend.hpp"

namespace dllm::cuda {

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(std::uint32_t max_rows, std::uint32_t n_cols);
  float* values() const noexcept { return memory_.as<float>(); }

 private:
  DeviceMemory memory_;
};

/// The rows of a view as they lie in memory, whatever waits to be done to them.
inline Rows stored_rows(const TensorView& view) {
  return {static_cast<const CudaBuffer&>(*view.buffer).values(), view.n_rows, view.n_cols};
}

/// What a step reads of the host's lists, written between steps: a copy travels only where it
/// changes something, and a write waits for the copy before it, no more.
class UploadedList {
 public:
  UploadedList(std::uint64_t bytes, cudaStream_t stream, const char* what);
  ~UploadedList();
  UploadedList(const UploadedList&) = delete;
  UploadedList& operator=(const UploadedList&) = delete;

  void write(const void* from, std::uint64_t bytes);
  template <typename T>
  const T* values() const noexcept {
    return memory_.as<T>();
  }

 private:
  cudaStream_t stream_;
  const char* what_;
  cudaEvent_t sent_ = nullptr;
  PinnedMemory staging_;
  DeviceMemory memory_;
  std::uint64_t known_bytes_ = 0;  // of staging_, on the device or on their way
};

class CudaIndexList final : public IndexList {
 public:
  CudaIndexList(std::uint32_t capacity, cudaStream_t stream)
      : list_(capacity * sizeof(std::int32_t), stream, "index list") {}
  void write(std::span<const std::int32_t> values) override;
  std::uint32_t size() const noexcept override { return size_; }
  const std::int32_t* values() const noexcept { return list_.values<std::int32_t>(); }

 private:
  UploadedList list_;
  std::uint32_t size_ = 0;
};

class CudaAttentionSpans final : public AttentionSpans {
 public:
  /// `long_lists`: of the backend's lists, how many hold a span that is not short.
  CudaAttentionSpans(std::uint32_t capacity, cudaStream_t stream,
                     std::shared_ptr<std::uint32_t> long_lists)
      : list_(capacity * sizeof(AttentionSpan), stream, "attention spans"),
        long_lists_(std::move(long_lists)) {}
  ~CudaAttentionSpans() override { count_long(false); }
  void write(std::span<const AttentionSpan> spans) override;
  const AttentionSpan* values() const noexcept { return list_.values<AttentionSpan>(); }
  std::uint32_t size() const noexcept { return size_; }
  std::uint64_t n_queries() const noexcept { return n_queries_; }

 private:
  void count_long(bool is_long);

  UploadedList list_;
  std::uint32_t size_ = 0;
  std::uint64_t n_queries_ = 0;
  bool is_long_ = false;
  std::shared_ptr<std::uint32_t> long_lists_;
};

}  // namespace dllm::cuda
