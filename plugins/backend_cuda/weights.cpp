#include "weights.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda_check.hpp"
#include "dllm/quant.hpp"
#include "gemm_int8.hpp"

namespace dllm::cuda {
namespace {

// Weights times this lie below 2^8: far from both ends of binary16.
float range_factor(float largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::ldexp(1.0f, std::clamp(8 - exponent, -100, 100));
}

// On the stream that will read it: a plain cudaMemcpy may return before the bytes have arrived, and
// the backend's stream does not wait for the default one.
void upload_whole(DeviceMemory& to, const void* from, cudaStream_t stream, const char* what) {
  cuda_check(cudaMemcpyAsync(to.as<std::byte>(), from, to.bytes(), cudaMemcpyHostToDevice, stream),
             what);
  cuda_check(cudaStreamSynchronize(stream), what);
}

}  // namespace

// The packed units are read once more and given back.
void Matrix::keep_int8(std::uint32_t step_cols, cudaStream_t stream) {
  DeviceMemory codes(packed_.int8_rows() * kInt8Cols, "weight " + name());
  steps_memory_ = DeviceMemory(packed_.int8_rows() * sizeof(float), "weight " + name());
  packed_.int8 = {codes.as<std::int8_t>(), steps_memory_.as<float>(), step_cols};
  launch_quantise(packed_, packed_.int8, stream);
  cuda_check(cudaStreamSynchronize(stream), "rounding a weight to int8");
  memory_ = std::move(codes);
  packed_.units = nullptr;
}

Matrix::Matrix(const GgufFile& file, const TensorInfo& tensor, Way way, std::uint32_t step_cols,
               Staging& staging, cudaStream_t stream)
    : Weight(tensor.name, tensor.dtype, rows_of(tensor), cols_of(tensor)) {
  packed_ = packed_shape(tensor);
  memory_ = DeviceMemory(packed_.bytes(), "weight " + tensor.name);
  packed_.units = memory_.as<std::uint8_t>();

  const Upload sizes = upload_of(tensor);
  const std::uint64_t stride = sizes.row_bytes;
  const std::uint32_t piece_rows = sizes.piece_rows;
  if (staging.raw.bytes() < sizes.buffer_bytes) {
    staging.raw = DeviceMemory();
    staging.raw = DeviceMemory(sizes.buffer_bytes, "upload buffer");
  }
  if (staging.range.bytes() == 0)
    staging.range = DeviceMemory(sizeof(WeightRange), "upload buffer");
  const std::byte* source = file.data(tensor).data();
  auto* raw = staging.raw.as<std::uint8_t>();
  auto* range = staging.range.as<WeightRange>();
  const auto upload = [&](std::uint32_t first, std::uint32_t count) {
    cuda_check(cudaMemcpyAsync(raw, source + first * stride, count * stride, cudaMemcpyHostToDevice,
                               stream),
               "uploading a weight");
  };

  // The range of the scales first: one more look at the data, on the device.
  cuda_check(cudaMemsetAsync(range, 0, sizeof(WeightRange), stream), "clearing the range");
  const bool one_piece = piece_rows >= n_rows();
  for (std::uint32_t first = 0; first < n_rows(); first += piece_rows) {
    const std::uint32_t count = std::min(piece_rows, n_rows() - first);
    upload(first, count);
    launch_range(tensor.dtype, raw, stride, count, n_cols(), range, stream);
  }
  WeightRange found;
  cuda_check(cudaMemcpyAsync(&found, range, sizeof found, cudaMemcpyDeviceToHost, stream),
             "reading the range");
  cuda_check(cudaStreamSynchronize(stream), "reading the range");
  const float factor = range_factor(found.largest);
  packed_.out_scale = 1 / factor;
  packed_.length = std::sqrt(found.square);
  for (std::uint32_t first = 0; first < n_rows(); first += piece_rows) {
    const std::uint32_t count = std::min(piece_rows, n_rows() - first);
    if (!one_piece) upload(first, count);
    launch_pack(tensor.dtype, raw, stride, first, count, factor, packed_, stream);
  }
  cuda_check(cudaStreamSynchronize(stream), "packing a weight");
  file.release_pages(tensor);
  if (way == Way::int8) keep_int8(step_cols, stream);
}

Vector::Vector(const GgufFile& file, const TensorInfo& tensor, cudaStream_t stream)
    : Weight(tensor.name, tensor.dtype, 1, cols_of(tensor)),
      memory_(n_cols() * sizeof(float), "vector " + tensor.name) {
  std::vector<float> values(n_cols());
  decode_row(tensor.dtype, file.data(tensor), values);
  upload_whole(memory_, values.data(), stream, "uploading a vector");
  file.release_pages(tensor);
}

Table::Table(const GgufFile& file, const TensorInfo& tensor, cudaStream_t stream)
    : Weight(tensor.name, tensor.dtype, rows_of(tensor), cols_of(tensor)),
      memory_(tensor.bytes, "table " + tensor.name),
      row_bytes_(dllm::row_bytes(tensor.dtype, n_cols())) {
  upload_whole(memory_, file.data(tensor).data(), stream, "uploading a table");
  file.release_pages(tensor);
}

}  // namespace dllm::cuda
