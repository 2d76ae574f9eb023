// Flash-style attention on tensor cores: binary16 operands, f32 scores, sums and softmax.
// (Dao, "FlashAttention-2", 2023, algorithm 1, forward pass.)
//
// Four warps take 64 queries of one sequence and head, 16 a warp, and walk the sequence's keys tile
// by tile with an online softmax; the next tile travels while one is used. A block is one such
// group of warps, or, where sequences are long, two that share the tiles. A query's result depends
// on its own row and its sequence's keys alone, always in the same order. Short sequences have a
// kernel that takes all keys at once (attention_short.cu).
//
// Rows of q, k and v carry powers of two (heads.hpp). Those of q and k multiply scores. Those of
// values go into the weights: with u the largest so far, sums are kept in units of u, and a key's
// weight is multiplied by its power over u, which is at most 1.
#include <string>

#include "attention_queries.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"

namespace dllm::cuda {
namespace {

// Of sequences, from which blocks have two groups.
constexpr std::uint32_t kLongSequence = 256;

template <typename Products, int kDim, int kKeys, int kGroups>
__device__ __forceinline__ void attend_with(const AttentionArgs& a) {
  constexpr int kThreads = kGroups * kGroupThreads;
  constexpr int kStageBytes = Stages<Products, kKeys>::kStageBytes;
  extern __shared__ __align__(16) std::uint8_t shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t head = blockIdx.y;
  const std::uint32_t kv_head = head * a.k.n_heads / a.q.n_heads;
  const std::uint32_t base = (shared_address(shared) + Products::kAlignment - 1) /
                             Products::kAlignment * Products::kAlignment;
  const std::uint8_t* memory = shared + (base - shared_address(shared));
  const Place place = find_place(a, kGroups * kGroupQueries);
  wait_for_predecessor();
  let_successor_start();
  if (!place.found || (a.skip_short && place.span.kv_count <= kShortKeys)) return;

  const std::uint32_t n_tiles = (place.span.kv_count + kKeys - 1) / kKeys;
  const TileLoader<Products, kDim, kKeys, kThreads> loader(a, kv_head, place.span);
  if (n_tiles > 0) loader.load(0, base);
  copy_commit();
  Queries<Products, kDim, kKeys> queries;
  queries.load(a, place, head, warp, lane);
  for (std::uint32_t tile = 0; tile < n_tiles; ++tile) {
    copy_wait<0>();
    Products::tile_is_there();
    __syncthreads();  // this tile is there for all, and the one before is no longer read
    if (tile + 1 < n_tiles)
      loader.load((tile + 1) * kKeys, base + (tile + 1) % kStages * kStageBytes);
    copy_commit();
    const std::uint32_t stage = tile % kStages * kStageBytes;
    queries.visit(base + stage,
                  reinterpret_cast<const float*>(memory + stage + 2 * Products::kTileBytes),
                  place.span.kv_count - tile * kKeys, lane);
  }
  queries.store(a, place, head, warp, lane);
}

template <int kDim, int kKeys>
__global__ void __launch_bounds__(kGroupThreads, kDim <= 128 ? 3 : 1) attend(AttentionArgs a) {
  attend_with<WarpProducts<kDim, kKeys>, kDim, kKeys, 1>(a);
}

template <int kDim, int kGroups>
__global__ void __launch_bounds__(kGroups* kGroupThreads, kGroups == 1 ? 3 : 1)
    attend_warpgroups(AttentionArgs a) {
#if defined(DLLM_WARPGROUPS)
  attend_with<WarpgroupProducts<kDim, 64>, kDim, 64, kGroups>(a);
#endif
}

template <typename Products, int kKeys, int kGroups>
void launch_with(void (*kernel)(AttentionArgs), const AttentionArgs& args, cudaStream_t stream) {
  constexpr int kBytes = Stages<Products, kKeys>::kBytes;
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
             "asking for shared memory");
  const dim3 grid(args.out.n_rows / (kGroups * kGroupQueries) + args.spans.n, args.q.n_heads);
  launch("launching attention", kernel, grid, kGroups * kGroupThreads, kBytes, stream, args);
}

template <int kDim, int kKeys>
void launch_warps(const AttentionArgs& args, cudaStream_t stream) {
  launch_with<WarpProducts<kDim, kKeys>, kKeys, 1>(attend<kDim, kKeys>, args, stream);
}

// A span's length alone decides which kernel takes it. A single span is that of all keys.
template <int kDim>
void launch_warpgroups(AttentionArgs args, cudaStream_t stream) {
  using Products = WarpgroupProducts<kDim, 64>;
  const bool all_short = args.spans.all_short || args.k.n_rows <= kShortKeys;
  args.skip_short = all_short || args.spans.n > 1;
  if (args.skip_short) launch_short_attention(args, stream);
  if (all_short) return;
  if (args.out.n_rows > kLongSequence * args.spans.n)
    return launch_with<Products, 64, 2>(attend_warpgroups<kDim, 2>, args, stream);
  launch_with<Products, 64, 1>(attend_warpgroups<kDim, 1>, args, stream);
}

}  // namespace

std::uint32_t attention_stride(std::uint32_t head_dim) {
  for (const std::uint32_t stride : {32u, 64u, 96u, 128u, 256u})
    if (head_dim <= stride) return stride;
  throw Error(ErrorCode::unsupported,
              "heads of " + std::to_string(head_dim) + " dimensions, at most 256 can be run",
              "backend cuda, attention", "use --backend cpu");
}

bool may_have_panel(const HeadJobs& jobs, Way way, const GemmDevice& device) {
  const bool fills_blocks =
      jobs.head_dim == kInt8Cols || (way == Way::f16 && jobs.head_dim == kUnitCols);
  return device.has_warpgroups && fills_blocks && are_whole(jobs);
}

void launch_attention(const HeadRows& q, const HeadRows& k, const HeadRows& v,
                      const SpanList& spans, const AttentionParams& params, const AttentionOut& out,
                      const GemmDevice& device, cudaStream_t stream) {
  const AttentionArgs args = {q,
                              k,
                              v,
                              out.rows,
                              out.inputs.f16,
                              out.inputs.int8,
                              spans,
                              params.head_dim,
                              params.scale * kLog2E,
                              false};
  if (device.has_warpgroups && q.stride == 64) return launch_warpgroups<64>(args, stream);
  if (device.has_warpgroups && q.stride == 128) return launch_warpgroups<128>(args, stream);
  switch (q.stride) {
    case 32:
      return launch_warps<32, 64>(args, stream);
    case 64:
      return launch_warps<64, 64>(args, stream);
    case 96:
      return launch_warps<96, 64>(args, stream);
    case 128:
      return launch_warps<128, 64>(args, stream);
    default:
      return launch_warps<256, 32>(args, stream);
  }
}

const void* attention_kernel() { return reinterpret_cast<const void*>(attend<32, 64>); }

}  // namespace dllm::cuda
