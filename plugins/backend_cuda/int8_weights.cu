// Packed weights to int8 of one step for 128 or 256 inputs of a row. Runs once per weight at load.
#include "cuda_check.hpp"
#include "gemm_common.cuh"
#include "gemm_int8.hpp"
#include "reduce.cuh"

namespace dllm::cuda {
namespace {

// Values of a lane: [step of 16 inputs][pair][neighbour]; zeros where the unit does not exist.
template <Form kForm>
__device__ void load_values(const Packed& from, std::uint32_t tile, std::uint32_t unit,
                            float (&values)[4][4][2], float (&largest)[2]) {
  Unit<kForm> packed = {};
  const bool there = unit < from.n_units();
  if (there) packed.load(from.units + from.unit_offset(tile, unit), static_cast<int>(threadIdx.x));
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const std::uint32_t word = there ? packed.pair(j, p) : 0;
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&word));
      values[j][p][0] = two.x;
      values[j][p][1] = two.y;
      largest[p % 2] = Larger{}(fabsf(two.x), Larger{}(fabsf(two.y), largest[p % 2]));
    }
}

// A warp makes 16 rows of a block, of two units.
template <Form kForm>
__global__ void quantise(Packed from, Int8Weights to) {
  const std::uint32_t lane = threadIdx.x;
  const std::uint32_t tile = blockIdx.y * kBlockUnits + threadIdx.y;  // of 16 rows
  const std::uint32_t block = blockIdx.x;                             // of 128 inputs
  float values[2][4][4][2];
  float largest[2] = {0, 0};  // of rows g and g + 8; NaN where a weight is, and then the step
  if (to.step_cols == kGatedStepCols)  // the other block that has the step
    for (std::uint32_t u = 0; u < 2; ++u)
      load_values<kForm>(from, tile, 2 * (block ^ 1) + u, values[u], largest);
  for (std::uint32_t u = 0; u < 2; ++u)
    load_values<kForm>(from, tile, 2 * block + u, values[u], largest);
  const std::uint64_t first_row =
      (std::uint64_t{blockIdx.y} * int8_blocks(from.n_cols) + block) * kBlockRows;
  float inverse[2];
#pragma unroll
  for (std::uint32_t i = 0; i < 2; ++i) {
    for (int offset = 1; offset < 4; offset *= 2)
      largest[i] = Larger{}(largest[i], __shfl_xor_sync(0xFFFFFFFFu, largest[i], offset));
    inverse[i] = largest[i] > 0 ? 127.0f / largest[i] : 0;
    if (lane % 4 == 0)
      to.steps[first_row + threadIdx.y * kUnitRows + lane / 4 + 8 * i] =
          largest[i] * (1.0f / 127.0f);
  }
#pragma unroll
  for (std::uint32_t u = 0; u < 2; ++u)
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j)
#pragma unroll
      for (std::uint32_t p = 0; p < 4; ++p) {
        const std::uint32_t row = threadIdx.y * kUnitRows + lane / 4 + 8 * (p % 2);
        const std::uint32_t k = 64 * u + 16 * j + 2 * (lane % 4) + 8 * (p / 2);
        char2 codes;
        codes.x = static_cast<signed char>(__float2int_rn(values[u][j][p][0] * inverse[p % 2]));
        codes.y = static_cast<signed char>(__float2int_rn(values[u][j][p][1] * inverse[p % 2]));
        *reinterpret_cast<char2*>(to.codes + (first_row + row) * kInt8Cols +
                                  ((k / 16) ^ (row % 8)) * 16 + k % 16) = codes;
      }
}

}  // namespace

void launch_quantise(const Packed& packed, const Int8Weights& to, cudaStream_t stream) {
  with_form(packed.form, [&](auto form) {
    const dim3 grid(int8_blocks(packed.n_cols), packed.n_blocks());
    quantise<decltype(form)::value><<<grid, dim3(32, kBlockUnits), 0, stream>>>(packed, to);
  });
  launch_check("launching quantise");
}

}  // namespace dllm::cuda
