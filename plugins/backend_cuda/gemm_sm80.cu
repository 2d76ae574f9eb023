// The product kernel: mma.sync m16n8k16, for compute capability 8.0 and newer.
//
// A block of eight warps takes 128 weight rows (16 a warp) and up to 160 input rows, and walks the
// inputs 64 at a time. Weights go from memory to registers and are unpacked there, once; inputs go
// through shared memory in a ring of stages and are read by all warps.
#include <algorithm>

#include "cuda_check.hpp"
#include "gemm_common.cuh"
#include "kernel_loading.hpp"

namespace dllm::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
static_assert(kWarps * kUnitRows == kGemmRowsSm80);
constexpr int kStages = 3;

#if !defined(DLLM_WARPGROUPS)

// A stage: kTokens rows of 128 bytes of one block of the panel, as they lie there.
template <int kTokens>
__device__ __forceinline__ void load_stage(const Panel& panel, std::uint32_t tile_row,
                                           std::uint32_t unit, std::uint32_t stage) {
  const __half* from =
      panel.values + (static_cast<std::uint64_t>(unit) * panel.padded_rows + tile_row) * kUnitCols;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * 8; i += kThreads)
    copy_async(stage + 16 * i, from + 8 * i, true);
}

// A part of a split product, as it is, where Sums looks for it.
template <int kTokens>
__device__ __forceinline__ void store_part(const GemmArgs& a, const float (&acc)[kTokens / 2],
                                           std::uint32_t tile, std::uint32_t split,
                                           std::uint32_t tile_row, int lane) {
  const std::uint32_t first_row = a.panel.first_row / 8 * 8;
  const std::uint32_t n_rows = a.panel.first_row - first_row + a.panel.n_rows;
  const std::uint64_t block = std::uint64_t{split} * a.n_blocks + tile / kBlockUnits;
  float* to =
      a.work + block * a.block_rows * kBlockRows + tile % kBlockUnits * kUnitRows + lane / 4;
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) {
    const std::uint32_t row = tile_row - first_row + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    if (row < n_rows) to[row * kBlockRows + 8 * (i / 2 % 2)] = acc[i];
  }
}

#endif

template <Form kForm, int kTokens>
__global__ void __launch_bounds__(kThreads) gemm(GemmArgs a) {
#if !defined(DLLM_WARPGROUPS)
  extern __shared__ __align__(128) std::uint8_t stages[];
  constexpr std::uint32_t kStageBytes = kTokens * 128;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Packed& weight = a.parts[0].weight;
  const std::uint32_t tile = blockIdx.y * kWarps + warp;
  const bool has_rows = tile < weight.n_blocks() * kBlockUnits;
  const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, blockIdx.x);
  const std::uint32_t n_units = weight.n_units();
  const std::uint32_t begin = blockIdx.z * a.units_per_split;
  const std::uint32_t end = min(begin + a.units_per_split, n_units);
  constexpr std::uint32_t kUnitStep = kBlockUnits * form_facts(kForm).unit_bytes();
  const std::uint8_t* unit_at = weight.units + weight.unit_offset(has_rows ? tile : 0, begin);
  const std::uint32_t base = shared_address(stages);

  float acc[kTokens / 2] = {};
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s < end) load_stage<kTokens>(a.panel, tile_row, begin + s, base + s * kStageBytes);
    copy_commit();
  }
  Unit<kForm> next;
  if (begin < end) next.load(unit_at, lane);
  for (std::uint32_t unit = begin; unit < end; ++unit) {
    copy_wait<kStages - 2>();
    __syncthreads();
    const std::uint32_t coming = unit + kStages - 1;
    if (coming < end)
      load_stage<kTokens>(a.panel, tile_row, coming,
                          base + (coming - begin) % kStages * kStageBytes);
    copy_commit();
    const Unit<kForm> now = next;
    if (unit + 1 < end) next.load(unit_at += kUnitStep, lane);
    const std::uint32_t stage = base + (unit - begin) % kStages * kStageBytes;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t operand[4];
      now.operand(j, operand);
#pragma unroll
      for (int n = 0; n < kTokens / 16; ++n) {
        // Lanes 0-7 address rows 0-7 of the first 8 inputs, 8-15 of the next 8, then rows 8-15.
        const std::uint32_t row = 16 * n + lane % 8 + 8 * (lane / 16);
        const std::uint32_t chunk = (2 * j + lane / 8 % 2) ^ (row % 8);
        std::uint32_t b[4];
        load_matrices(stage + row * 128 + chunk * 16, b);
        multiply(acc + 8 * n, operand, b[0], b[1]);
        multiply(acc + 8 * n + 4, operand, b[2], b[3]);
      }
    }
  }
  copy_wait<0>();
  if (!has_rows) return;
  if (a.n_splits > 1) {
    store_part<kTokens>(a, acc, tile, blockIdx.z, tile_row, lane);
    return;
  }
  const ResultRows rows(a, a.parts[0], tile * kUnitRows, tile_row, lane);
#pragma unroll
  for (int n = 0; n < kTokens / 8; ++n) {
    const std::uint32_t row = tile_row + 8 * n + 2 * (lane % 4);
    const std::uint32_t last = a.panel.first_row + a.panel.n_rows - 1;
    rows.store(
        n, four(acc, n),
        {__ldg(a.panel.row_scale + min(row, last)), __ldg(a.panel.row_scale + min(row + 1, last))},
        rows.there(n));
  }
#endif
}

template <Form kForm, int kTokens>
void launch(const GemmArgs& args, cudaStream_t stream) {
  constexpr int kBytes = kStages * kTokens * 128;
  cuda_check(cudaFuncSetAttribute(gemm<kForm, kTokens>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kBytes),
             "asking for shared memory");
  // Blocks that share weights are neighbours: the second finds them in the cache.
  const dim3 grid(token_tiles<kTokens>(args.panel),
                  (args.n_blocks * kBlockRows + kGemmRowsSm80 - 1) / kGemmRowsSm80, args.n_splits);
  gemm<kForm, kTokens><<<grid, kThreads, kBytes, stream>>>(args);
  launch_check("launching a product");
}

// The tile of input rows that leaves the fewest places empty.
template <Form kForm>
void launch_form(const GemmArgs& args, cudaStream_t stream) {
  if (token_tiles<32>(args.panel) == 1) return launch<kForm, 32>(args, stream);
  if (96 * token_tiles<96>(args.panel) < 160 * token_tiles<160>(args.panel))
    return launch<kForm, 96>(args, stream);
  launch<kForm, 160>(args, stream);
}

}  // namespace

void launch_gemm_sm80(const GemmArgs& args, cudaStream_t stream) {
  with_form(args.parts[0].weight.form,
            [&](auto form) { launch_form<decltype(form)::value>(args, stream); });
}

const void* gemm_sm80_kernel() { return reinterpret_cast<const void*>(gemm<Form::q4, 32>); }

}  // namespace dllm::cuda
