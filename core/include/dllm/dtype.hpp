// The tensor types a GGUF file can name, with their block geometry.
//
//   const DTypeInfo* info = find_dtype(raw_id);   // nullptr: no such type
//   info->block_size                              // elements per block
//
// Ids, names and sizes: ggml `ggml.h` and `ggml-common.h`. Thread rule: constant tables, any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dllm {

/// Values equal the type ids stored in GGUF files.
enum class DType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;      ///< as the GGUF world writes it: "Q4_K", "F32"
  std::uint32_t block_size;   ///< elements per block; a row is a whole number of blocks
  std::uint32_t block_bytes;  ///< bytes per block
};

/// The type with this id in the file, or nullptr for an unknown or removed id.
const DTypeInfo* find_dtype(std::uint32_t raw_id) noexcept;

/// Facts of a known type.
const DTypeInfo& dtype_info(DType dtype);

/// Upper-case name, "Q4_K".
std::string_view dtype_name(DType dtype);

/// Bytes of one row of `n_elements`; `n_elements` must be a multiple of the block size.
std::uint64_t row_bytes(DType dtype, std::uint64_t n_elements);

/// All known types, in id order.
std::span<const DTypeInfo> all_dtypes() noexcept;

}  // namespace dllm
