// How a matrix lies on the device: codes in the order in which a tensor core wants them.
//
// A unit is 16 weight rows x 64 inputs. Lane l of a warp holds, of the A operand of an
// m16n8k16 product, the rows g = l / 4 and g + 8 and the inputs 2 (l % 4), +1, +8, +9 of each 16:
// pair p of step j is row g + 8 (p % 2), inputs 16 j + 2 (l % 4) + 8 (p / 2) + {0, 1}. (PTX ISA,
// "Matrix fragments for mma.m16n8k16")
// So a lane reads its 32 codes of a unit with one or two 16-byte loads and makes operands of them
// without talking to other lanes. The same order is right for Hopper's m64nNk16, whose four warps
// hold 16 rows each ("Register fragments for wgmma.mma_async.m64k16").
//
// A unit is contiguous: low bits, high bits, scales. Four units, 64 rows x 64 inputs, make a block,
// which a copy engine moves as one piece; blocks lie row by row, inputs ascending. Rows and inputs
// that fill up the last block are 0.
//
//   w = scale * (code - offset)            forms without a minimum
//   w = scale * code + minimum             forms with one
//
// Scales are binary16, after multiplication by a power of two per matrix (Packed::out_scale undoes
// it), so that they cannot leave its range. Sizes per weight: q4_min 5 bits (Q4_K: 4.5 in the
// file), q5_min 6 (Q5_K: 5.5), q8 8.5, q8_half 9 (Q6_K: 6.56; with its codes in six bits
// products of many rows take a quarter longer), f16 16.
#pragma once

#include <cstdint>
#include <optional>

#include "dllm/dtype.hpp"
#include "products.hpp"

namespace dllm::cuda {

constexpr std::uint32_t kUnitRows = 16;
constexpr std::uint32_t kUnitCols = 64;
constexpr std::uint32_t kBlockUnits = 4;
constexpr std::uint32_t kBlockRows = kBlockUnits * kUnitRows;

/// Code width, inputs per scale (half: 16, else 32), minimum or not.
enum class Form : std::uint8_t {
  q4,           // Q4_0: offset 8
  q4_min,       // Q4_1, Q4_K
  q4_half,      // Q3_K: offset 8
  q4_half_min,  // Q2_K
  q5,           // Q5_0: offset 16
  q5_min,       // Q5_1, Q5_K
  q8,           // Q8_0, IQ4_NL, IQ4_XS: offset 128
  q8_half,      // Q6_K: offset 128
  f16           // F32, F16, BF16: the weights themselves
};

struct FormFacts {
  std::uint32_t bits;
  bool half_groups;
  bool has_minimum;
  std::uint32_t low_bytes;    // per unit: 4-bit, 8-bit or 16-bit part
  std::uint32_t high_bytes;   // per unit: fifth bits
  std::uint32_t scale_bytes;  // per unit

  constexpr std::uint32_t unit_bytes() const { return low_bytes + high_bytes + scale_bytes; }
};

constexpr FormFacts form_facts(Form form) {
  switch (form) {
    case Form::q4:
      return {4, false, false, 512, 0, 64};
    case Form::q4_min:
      return {4, false, true, 512, 0, 128};
    case Form::q4_half:
      return {4, true, false, 512, 0, 128};
    case Form::q4_half_min:
      return {4, true, true, 512, 0, 256};
    case Form::q5:
      return {5, false, false, 512, 128, 64};
    case Form::q5_min:
      return {5, false, true, 512, 128, 128};
    case Form::q8:
      return {8, false, false, 1024, 0, 64};
    case Form::q8_half:
      return {8, true, false, 1024, 0, 128};
    case Form::f16:
      return {16, false, false, 2048, 0, 0};
  }
  return {};
}

/// The form a GGUF type is packed into; nullopt where the backend has none.
constexpr std::optional<Form> form_of(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
      return Form::q4;
    case DType::q4_1:
    case DType::q4_k:
      return Form::q4_min;
    case DType::q3_k:
      return Form::q4_half;
    case DType::q2_k:
      return Form::q4_half_min;
    case DType::q5_0:
      return Form::q5;
    case DType::q5_1:
    case DType::q5_k:
      return Form::q5_min;
    case DType::q6_k:
      return Form::q8_half;
    case DType::q8_0:
    case DType::iq4_nl:
    case DType::iq4_xs:
      return Form::q8;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return Form::f16;
    default:
      return std::nullopt;
  }
}

/// int8 weights: blocks of 64 rows by 128 inputs, row by row, inputs ascending,
/// with a float for each of a block's rows.
constexpr std::uint32_t kInt8Cols = 128;
/// Inputs that share a step where gate and up are multiplied: half the work of bringing integer
/// sums into f32. Each of the two blocks has it.
constexpr std::uint32_t kGatedStepCols = 256;
constexpr std::uint32_t int8_blocks(std::uint32_t cols) {
  return (cols + kInt8Cols - 1) / kInt8Cols;
}
/// Device pointers, borrowed. In a block a row is 128 bytes, with the 16-byte chunk c of row r at
/// place c ^ (r % 8).
struct Int8Weights {
  std::int8_t* codes = nullptr;
  float* steps = nullptr;
  std::uint32_t step_cols = kInt8Cols;  // inputs that share a step: kInt8Cols or kGatedStepCols
};

/// A packed matrix as kernels see it. Device pointers, borrowed.
struct Packed {
  const std::uint8_t* units = nullptr;
  float out_scale = 1;  // multiplies results: undoes the power of two in the scales
  float length = 0;     // of the longest row (Euclidean)
  Int8Weights int8;     // of matrices multiplied in that way: instead of `units`
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
  Form form = Form::f16;

  constexpr std::uint32_t n_blocks() const { return (n_rows + kBlockRows - 1) / kBlockRows; }
  /// Units along the inputs.
  constexpr std::uint32_t n_units() const { return (n_cols + kUnitCols - 1) / kUnitCols; }
  /// Place of the unit of rows [16 tile, +16) and inputs [64 col, +64) in `units`.
  constexpr std::uint64_t unit_offset(std::uint32_t tile, std::uint32_t col) const {
    return (((static_cast<std::uint64_t>(tile) / kBlockUnits) * n_units() + col) * kBlockUnits +
            tile % kBlockUnits) *
           form_facts(form).unit_bytes();
  }
  /// Rows of int8 blocks, all together.
  constexpr std::uint64_t int8_rows() const {
    return std::uint64_t{n_blocks()} * kBlockRows * int8_blocks(n_cols);
  }
  /// The way of multiplying for which it lies there.
  constexpr Way way() const { return int8.codes ? Way::int8 : Way::f16; }
  /// That a product reads.
  constexpr std::uint64_t read_bytes() const {
    return way() == Way::int8 ? int8_rows() * (kInt8Cols + sizeof(float)) : bytes();
  }
  /// Of packed units.
  constexpr std::uint64_t bytes() const {
    return std::uint64_t{n_blocks()} * n_units() * kBlockUnits * form_facts(form).unit_bytes();
  }
};

}  // namespace dllm::cuda
