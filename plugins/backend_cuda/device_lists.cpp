#include "device_lists.hpp"

#include <cstddef>
#include <cstring>
#include <string>

#include "attention.hpp"
#include "cuda_check.hpp"
#include "dllm/error.hpp"

namespace dllm::cuda {

CudaBuffer::CudaBuffer(std::uint32_t max_rows, std::uint32_t n_cols)
    : Buffer(max_rows, n_cols),
      memory_(std::uint64_t{max_rows} * n_cols * sizeof(float), "activation buffer") {}

UploadedList::UploadedList(std::uint64_t bytes, cudaStream_t stream, const char* what)
    : stream_(stream), what_(what), staging_(bytes, what), memory_(bytes, what) {
  cuda_check(cudaEventCreateWithFlags(&sent_, cudaEventDisableTiming), "making an event");
}

UploadedList::~UploadedList() { (void)cudaEventDestroy(sent_); }

void UploadedList::write(const void* from, std::uint64_t bytes) {
  DLLM_ASSERT(bytes <= staging_.bytes());
  auto* staging = staging_.as<std::byte>();
  if (bytes == 0 || (bytes <= known_bytes_ && std::memcmp(staging, from, bytes) == 0)) return;
  cuda_check(cudaEventSynchronize(sent_), what_);
  known_bytes_ = 0;
  std::memcpy(staging, from, bytes);
  cuda_check(
      cudaMemcpyAsync(memory_.as<std::byte>(), staging, bytes, cudaMemcpyHostToDevice, stream_),
      what_);
  cuda_check(cudaEventRecord(sent_, stream_), what_);
  known_bytes_ = bytes;
}

void CudaIndexList::write(std::span<const std::int32_t> values) {
  list_.write(values.data(), values.size_bytes());
  size_ = static_cast<std::uint32_t>(values.size());
}

void CudaAttentionSpans::write(std::span<const AttentionSpan> spans) {
  for (const AttentionSpan& span : spans) {
    if (span.mask == MaskKind::full) continue;
    throw Error(ErrorCode::unsupported,
                "attention mask '" + std::string(mask_kind_name(span.mask)) + "' is not built",
                "backend cuda", "only full attention can be run");
  }
  list_.write(spans.data(), spans.size_bytes());
  size_ = static_cast<std::uint32_t>(spans.size());
  n_queries_ = 0;
  bool is_long = false;
  for (const AttentionSpan& span : spans) {
    n_queries_ += span.q_count;
    is_long = is_long || span.kv_count > kShortKeys;
  }
  count_long(is_long);
}

void CudaAttentionSpans::count_long(bool is_long) {
  if (is_long && !is_long_) ++*long_lists_;
  if (!is_long && is_long_) --*long_lists_;
  is_long_ = is_long;
}

}  // namespace dllm::cuda
