// Raw GGUF rows to packed units, one thread per lane and unit. Runs once per weight at load.
#include "block_codes.cuh"
#include "cuda_check.hpp"
#include "reduce.cuh"
#include "weights.hpp"

namespace dllm::cuda {
namespace {

struct PackArgs {
  DType dtype;
  const std::uint8_t* raw;
  std::uint64_t row_bytes;
  std::uint32_t first_row;
  std::uint32_t n_rows;
  std::uint32_t n_cols;
  float factor;
  FormFacts facts;
  Packed to;  // its units are written
};

__device__ const std::uint8_t* block_of(const PackArgs& a, std::uint32_t row, std::uint32_t k) {
  return a.raw + row * a.row_bytes +
         static_cast<std::uint64_t>(k / block_cols(a.dtype)) * block_bytes(a.dtype);
}

// What does not exist is 0 after the offset is taken off: its scale is 0 too.
__device__ int code_at(const PackArgs& a, std::uint32_t row, std::uint32_t k) {
  if (row >= a.n_rows || k >= a.n_cols) return 0;
  return block_code(a.dtype, block_of(a, row, k), static_cast<int>(k % block_cols(a.dtype)));
}

__device__ Affine affine_at(const PackArgs& a, std::uint32_t row, std::uint32_t k) {
  if (row >= a.n_rows || k >= a.n_cols) return {0, 0};
  const Affine affine =
      block_affine(a.dtype, block_of(a, row, k), static_cast<int>(k % block_cols(a.dtype)));
  return {affine.scale * a.factor, affine.minimum * a.factor};
}

struct Lane {
  std::uint32_t row;  // g of the unit, in raw rows
  std::uint32_t col;  // first input of the lane's pairs
  __device__ std::uint32_t pair_row(int p) const { return row + 8 * (p & 1); }
  __device__ std::uint32_t pair_col(int step, int p) const {
    return col + 16 * step + 8 * (p >> 1);
  }
};

__device__ void pack_floats(const PackArgs& a, const Lane& lane, std::uint8_t* unit, int l) {
  for (int step = 0; step < 4; ++step) {
    auto* to = reinterpret_cast<__half*>(unit + step * 512 + l * 16);
    for (int p = 0; p < 4; ++p)
      for (int e = 0; e < 2; ++e) {
        const std::uint32_t row = lane.pair_row(p);
        const std::uint32_t k = lane.pair_col(step, p) + e;
        float value = 0;
        if (row < a.n_rows && k < a.n_cols)
          value = row_value(a.dtype, a.raw + row * a.row_bytes, k) * a.factor;
        to[2 * p + e] = __float2half_rn(value);
      }
  }
}

__device__ void pack_bytes(const PackArgs& a, const Lane& lane, std::uint8_t* unit, int l) {
  for (int step = 0; step < 4; ++step) {
    std::uint8_t* to = unit + (step / 2) * 512 + l * 16 + (step % 2) * 8;
    for (int p = 0; p < 4; ++p)
      for (int e = 0; e < 2; ++e)
        to[2 * p + e] =
            static_cast<std::uint8_t>(code_at(a, lane.pair_row(p), lane.pair_col(step, p) + e));
  }
}

// Low nibbles, then the fifth bits: bit p of each half of a step's nibble is pair p's.
__device__ void pack_bits(const PackArgs& a, const Lane& lane, std::uint8_t* unit, int l) {
  std::uint32_t high = 0;
  for (int step = 0; step < 4; ++step) {
    std::uint32_t low = 0;
    for (int p = 0; p < 4; ++p)
      for (int e = 0; e < 2; ++e) {
        const auto code =
            static_cast<std::uint32_t>(code_at(a, lane.pair_row(p), lane.pair_col(step, p) + e));
        low |= (code & 15) << (4 * p + 16 * e);
        high |= (code >> 4) << (4 * step + p + 16 * e);
      }
    reinterpret_cast<std::uint32_t*>(unit + l * 16)[step] = low;
  }
  if (a.facts.bits == 5) reinterpret_cast<std::uint32_t*>(unit + a.facts.low_bytes)[l] = high;
}

// [g][group][row g, row g + 8], each a half or (scale, minimum).
__device__ void pack_scales(const PackArgs& a, const Lane& lane, std::uint8_t* unit, int l) {
  const int cols = a.facts.half_groups ? 16 : 32;
  const int groups = 64 / cols;
  const int each = a.facts.has_minimum ? 2 : 1;
  auto* to = reinterpret_cast<__half*>(unit + a.facts.low_bytes + a.facts.high_bytes) +
             (l / 4) * groups * 2 * each;
  const std::uint32_t first = lane.col - 2 * (l % 4);
  for (int group = 0; group < groups; ++group)
    for (int i = 0; i < 2; ++i) {
      const Affine affine = affine_at(a, lane.row + 8 * i, first + group * cols);
      *to++ = __float2half_rn(affine.scale);
      if (each == 2) *to++ = __float2half_rn(affine.minimum);
    }
}

// Units of rows beyond the matrix are written too, up to the end of the block.
__global__ void pack(PackArgs a) {
  const std::uint32_t unit_col = blockIdx.x;
  const std::uint32_t tile = blockIdx.y * kBlockUnits + threadIdx.y;
  const int l = static_cast<int>(threadIdx.x);
  std::uint8_t* unit = const_cast<std::uint8_t*>(a.to.units) +
                       a.to.unit_offset(a.first_row / kUnitRows + tile, unit_col);
  const Lane lane = {tile * kUnitRows + l / 4, unit_col * kUnitCols + 2 * (l % 4)};
  if (a.to.form == Form::f16) {
    pack_floats(a, lane, unit, l);
  } else if (a.facts.bits == 8) {
    pack_bytes(a, lane, unit, l);
  } else {
    pack_bits(a, lane, unit, l);
  }
  if (a.facts.scale_bytes > 0 && l % 4 == 0) pack_scales(a, lane, unit, l);
}

// Non-negative floats order as their bits do; a NaN orders above all and is kept.
__device__ void raise(float* to, float value) {
  atomicMax(reinterpret_cast<int*>(to), __float_as_int(value) & 0x7FFFFFFF);
}

// A block owns a row.
__global__ void find_range(DType dtype, const std::uint8_t* raw, std::uint64_t row_bytes,
                           std::uint32_t n_cols, int largest_code, int stride, WeightRange* range) {
  __shared__ float shared[32];
  float mine = 0;
  const std::uint8_t* row = raw + blockIdx.x * row_bytes;
  for (std::uint32_t k = threadIdx.x * stride; k < n_cols; k += blockDim.x * stride) {
    float bound = 0;
    if (stride == 1) {
      bound = fabsf(row_value(dtype, row, k));
    } else {
      const std::uint32_t cols = block_cols(dtype);
      const Affine affine =
          block_affine(dtype, row + static_cast<std::uint64_t>(k / cols) * block_bytes(dtype),
                       static_cast<int>(k % cols));
      bound = fabsf(affine.scale) * largest_code + fabsf(affine.minimum);
    }
    if (bound > mine || bound != bound) mine = bound;
  }
  raise(&range->largest, mine);
  float square = 0;
  for (std::uint32_t k = threadIdx.x; k < n_cols; k += blockDim.x) {
    const float value = row_value(dtype, row, k);
    square += value * value;
  }
  square = reduce_block(square, 0.0f, Add{}, shared);
  if (threadIdx.x == 0) raise(&range->square, square);
}

}  // namespace

void launch_range(DType dtype, const std::uint8_t* raw, std::uint64_t row_bytes,
                  std::uint32_t n_rows, std::uint32_t n_cols, WeightRange* range,
                  cudaStream_t stream) {
  const FormFacts facts = form_facts(*form_of(dtype));
  const int code = facts.has_minimum ? (1 << facts.bits) - 1 : 1 << (facts.bits - 1);
  const int stride = facts.scale_bytes == 0 ? 1 : facts.half_groups ? 16 : 32;
  find_range<<<n_rows, 128, 0, stream>>>(dtype, raw, row_bytes, n_cols, code, stride, range);
  launch_check("launching find_range");
}

void launch_pack(DType dtype, const std::uint8_t* raw, std::uint64_t row_bytes,
                 std::uint32_t first_row, std::uint32_t n_rows, float factor, const Packed& to,
                 cudaStream_t stream) {
  const PackArgs args = {dtype,     raw,    row_bytes,           first_row, n_rows,
                         to.n_cols, factor, form_facts(to.form), to};
  pack<<<dim3(to.n_units(), (n_rows + kBlockRows - 1) / kBlockRows), dim3(32, kBlockUnits), 0,
         stream>>>(args);
  launch_check("launching pack");
}

}  // namespace dllm::cuda
