// The product kernel: mma.sync m16n8k16, for compute capability 8.0 and newer.
//
// A block of eight warps takes 128 weight rows (16 a warp) and up to 160 input rows, and walks the
// inputs 64 at a time. Weights go from memory to registers and are unpacked there, once; inputs go
// through shared memory in a ring of stages and are read by all warps.
#include "gemm_common.cuh"

namespace dllm::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
static_assert(kWarps * kUnitRows == kGemmBlockRows);
constexpr int kStages = 3;

__device__ __forceinline__ void load_matrices(std::uint32_t address, std::uint32_t b[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(address));
}

__device__ __forceinline__ void multiply(float* c, const std::uint32_t a[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <Form kForm, int kTokens>
__global__ void __launch_bounds__(kThreads) gemm(GemmArgs a) {
  extern __shared__ __align__(128) std::uint8_t stages[];
  constexpr std::uint32_t kStageBytes = kTokens * 128;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t tile = blockIdx.y * kWarps + warp;
  const bool has_rows = tile < a.weight.n_row_tiles();
  const std::uint32_t first_token = blockIdx.x * kTokens;
  const std::uint32_t n_units = a.weight.n_units();
  const std::uint32_t begin = blockIdx.z * a.units_per_split;
  const std::uint32_t end = min(begin + a.units_per_split, n_units);
  const std::uint64_t first_unit = static_cast<std::uint64_t>(has_rows ? tile : 0) * n_units;
  const std::uint32_t base = shared_address(stages);

  float acc[kTokens / 2] = {};
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s < end)
      load_stage<kTokens, kThreads>(a.panel, first_token, begin + s, base + s * kStageBytes);
    copy_commit();
  }
  Unit<kForm> next;
  if (begin < end) next.load(a.weight, first_unit + begin, lane);
  for (std::uint32_t unit = begin; unit < end; ++unit) {
    copy_wait<kStages - 2>();
    __syncthreads();
    const std::uint32_t coming = unit + kStages - 1;
    if (coming < end)
      load_stage<kTokens, kThreads>(a.panel, first_token, coming,
                                    base + (coming - begin) % kStages * kStageBytes);
    copy_commit();
    const Unit<kForm> now = next;
    if (unit + 1 < end) next.load(a.weight, first_unit + unit + 1, lane);
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
  if (has_rows) store_results<kTokens>(a, acc, tile * kUnitRows, first_token, lane);
}

struct Launch {
  const GemmArgs& args;
  std::uint32_t n_splits;
  cudaStream_t stream;

  template <Form kForm, int kTokens>
  void run() const {
    constexpr int kBytes = kStages * kTokens * 128;
    cuda_check(cudaFuncSetAttribute(gemm<kForm, kTokens>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "asking for shared memory");
    // Blocks that share weights are neighbours: the second finds them in the cache.
    const dim3 grid((args.panel.n_rows + kTokens - 1) / kTokens,
                    (args.weight.n_rows + kGemmBlockRows - 1) / kGemmBlockRows, n_splits);
    gemm<kForm, kTokens><<<grid, kThreads, kBytes, stream>>>(args);
    launch_check("launching a product");
  }
};

}  // namespace

void launch_gemm_kernel(const GemmArgs& args, std::uint32_t n_splits, cudaStream_t stream) {
  with_form(args, Launch{args, n_splits, stream});
}

}  // namespace dllm::cuda
