// Head norm, rotation and the change to binary16. In prepare_heads() a warp owns one head of one
// row, and its lanes the pairs of dimensions that rotate together. The usual case, heads that
// rotate whole or not at all, is prepare_whole_heads(): four heads of a row a warp, four
// neighbouring dimensions a lane. Both give the same bits.
#include "heads.hpp"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "row_scale.cuh"
#include "sums.cuh"

namespace dllm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

struct AngleArgs {
  const std::int32_t* positions;
  std::uint32_t n_rows;
  std::uint32_t n_rot;
  double theta;
  double scale;
  float2* table;
};

__global__ void angles(AngleArgs a) {
  wait_for_predecessor();
  let_successor_start();
  const std::uint32_t half = a.n_rot / 2;
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n_rows * half) return;
  const std::uint32_t m = i % half;
  const double angle =
      a.positions[i / half] * a.scale * pow(a.theta, -2.0 * static_cast<double>(m) / a.n_rot);
  double sine = 0;
  double cosine = 0;
  sincos(angle, &sine, &cosine);
  a.table[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
}

// Spelled out, so that every kernel rounds alike.
__device__ __forceinline__ float2 rotated(float2 v, float2 angle) {
  return {__fmaf_rn(v.x, angle.x, -__fmul_rn(v.y, angle.y)),
          __fmaf_rn(v.x, angle.y, __fmul_rn(v.y, angle.x))};
}

// The dimensions of pair p of a head; a pair that does not rotate holds neighbours.
struct Pair {
  std::uint32_t first;
  std::uint32_t second;
};
__device__ __forceinline__ Pair pair_of(const Rotation& rotation, std::uint32_t p) {
  const std::uint32_t half = rotation.n_rot / 2;
  if (rotation.table && rotation.neox && p < half) return {p, p + half};
  return {2 * p, 2 * p + 1};
}

// Column `col` of a row: what is there, or its sums.
__device__ __forceinline__ float value_of(const HeadJob& job, std::uint32_t row,
                                          std::uint32_t col) {
  const Sums& sums = job.sums;
  if (sums.n == 0) return job.from.values[static_cast<std::uint64_t>(row) * job.from.n_cols + col];
  const float* part = sums.parts + sums.place(row, col);
  float total = *part;
  for (std::uint32_t s = 1; s < sums.n; ++s) total += *(part += sums.part_floats);
  return total * scale_of(sums, row) + (sums.bias ? sums.bias[col] : 0);
}

template <int kPairs>
struct Head {
  float2 values[kPairs];  // pair lane + 32 i

  // The head whose first column is `first`.
  __device__ __forceinline__ void load(const HeadJob& job, std::uint32_t row, std::uint32_t first,
                                       std::uint32_t head_dim, std::uint32_t lane) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const Pair pair = pair_of(job.rotation, lane + 32 * i);
      values[i].x = pair.first < head_dim ? value_of(job, row, first + pair.first) : 0;
      values[i].y = pair.second < head_dim ? value_of(job, row, first + pair.second) : 0;
    }
  }

  __device__ __forceinline__ void norm(const Rotation& rotation, std::uint32_t head_dim,
                                       std::uint32_t lane) {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      sum += static_cast<double>(values[i].x) * static_cast<double>(values[i].x) +
             static_cast<double>(values[i].y) * static_cast<double>(values[i].y);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    const auto factor = static_cast<float>(
        1.0 / sqrt(sum / head_dim + static_cast<double>(rotation.head_norm_eps)));
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const Pair pair = pair_of(rotation, lane + 32 * i);
      if (pair.first < head_dim) values[i].x *= factor * rotation.head_norm[pair.first];
      if (pair.second < head_dim) values[i].y *= factor * rotation.head_norm[pair.second];
    }
  }

  __device__ __forceinline__ void rotate(const Rotation& rotation, std::uint32_t row,
                                         std::uint32_t lane) {
    const std::uint32_t half = rotation.n_rot / 2;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if (lane + 32 * i >= half) continue;
      const float2 angle = rotation.table[static_cast<std::uint64_t>(row) * half + lane + 32 * i];
      values[i] = rotated(values[i], angle);
    }
  }

  __device__ __forceinline__ void store(float* to, const Rotation& rotation, std::uint32_t head_dim,
                                        std::uint32_t lane) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const Pair pair = pair_of(rotation, lane + 32 * i);
      if (pair.first < head_dim) to[pair.first] = values[i].x;
      if (pair.second < head_dim) to[pair.second] = values[i].y;
    }
  }

  // NaN where a value is.
  __device__ __forceinline__ float largest() const {
    float largest = 0;
    bool number = true;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      number &= values[i].x == values[i].x && values[i].y == values[i].y;
      largest = fmaxf(largest, fmaxf(fabsf(values[i].x), fabsf(values[i].y)));
    }
    for (int offset = 16; offset > 0; offset /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
    return __all_sync(0xFFFFFFFFu, number) ? largest : nanf("");
  }

  __device__ __forceinline__ void store(__half* to, float inverse, const Rotation& rotation,
                                        std::uint32_t stride, std::uint32_t lane) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::uint32_t p = lane + 32 * i;
      if (2 * p >= stride) continue;
      const Pair pair = pair_of(rotation, p);
      const __half2 both = __floats2half2_rn(values[i].x * inverse, values[i].y * inverse);
      if (pair.second == pair.first + 1 && pair.first % 2 == 0) {
        *reinterpret_cast<__half2*>(to + pair.first) = both;
      } else {
        to[pair.first] = __low2half(both);
        to[pair.second] = __high2half(both);
      }
    }
  }
};

constexpr int kValueExponent = 0;  // of a row's largest value in binary16

template <int kPairs>
__global__ void __launch_bounds__(kThreads) prepare_heads(HeadJobs jobs) {
  wait_for_predecessor();
  let_successor_start();
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t item = blockIdx.x * kWarps + threadIdx.x / 32;
  for (int j = 0; j < jobs.count; ++j) {
    const HeadJob& job = jobs.job[j];
    const std::uint32_t n_items = job.from.n_rows * job.n_heads;
    if (item >= n_items) {
      item -= n_items;
      continue;
    }
    const std::uint32_t row = item / job.n_heads;
    const std::uint32_t head = item % job.n_heads;
    float* from =
        job.from.values + static_cast<std::uint64_t>(row) * job.from.n_cols + head * jobs.head_dim;
    Head<kPairs> values;
    values.load(job, row, head * jobs.head_dim, jobs.head_dim, lane);
    if (job.rotation.head_norm) values.norm(job.rotation, jobs.head_dim, lane);
    if (job.rotation.table) values.rotate(job.rotation, row, lane);
    if (!job.to.values) return values.store(from, job.rotation, jobs.head_dim, lane);
    const float scale = row_scale(values.largest(), kValueExponent);
    const std::uint64_t place = static_cast<std::uint64_t>(head) * job.to.n_rows + row;
    values.store(job.to.values + place * job.to.stride, 1.0f / scale, job.rotation, job.to.stride,
                 lane);
    if (lane == 0) job.to.scale[place] = scale;
    return;
  }
}

constexpr std::uint32_t kGroup = HeadRows::kGroup;  // heads of a warp, and dimensions of a lane

__device__ __forceinline__ float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

// Four neighbouring columns of each of a group's heads, of which `n` exist, from column `col` of a
// row; the others get those of the first. `kParts`: of the sums, all read before the first is
// added; 0: any number, also none. Written for few instructions: they are cold.
template <int kParts>
__device__ __forceinline__ void load_group(const HeadJob& job, std::uint32_t row, std::uint32_t col,
                                           std::uint32_t head_dim, std::uint32_t n,
                                           float4 (&x)[kGroup]) {
  const Sums& sums = job.sums;
  const bool plain = kParts == 0 && sums.n == 0;
  const float* from =
      plain ? job.from.values + static_cast<std::uint64_t>(row) * job.from.n_cols + col
            : sums.parts + sums.place(row, col);
  const std::uint64_t step = plain ? head_dim : sums.place(0, head_dim);
  const auto load = [&](float4(&to)[kGroup]) {
#pragma unroll
    for (std::uint32_t h = 0; h < kGroup; ++h) to[h] = load4(from + (h < n ? h : 0) * step);
    from += sums.part_floats;
  };
  const auto add = [&](const float4(&more)[kGroup]) {
#pragma unroll
    for (std::uint32_t h = 0; h < kGroup; ++h)
      x[h] = {x[h].x + more[h].x, x[h].y + more[h].y, x[h].z + more[h].z, x[h].w + more[h].w};
  };
  load(x);
  if (plain) return;
  const float scale = scale_of(sums, row);
  if constexpr (kParts > 1) {
    float4 more[kParts - 1][kGroup];
#pragma unroll
    for (auto& each : more) load(each);
#pragma unroll
    for (const auto& each : more) add(each);
  } else {
    // Two at a time, as registers allow.
#pragma unroll 1
    for (std::uint32_t s = 1; s < sums.n; s += 2) {
      float4 more[2][kGroup];
      load(more[0]);
      if (s + 1 < sums.n) load(more[1]);
      add(more[0]);
      if (s + 1 < sums.n) add(more[1]);
    }
  }
#pragma unroll
  for (std::uint32_t h = 0; h < kGroup; ++h) {
    float4 bias = {};
    if (sums.bias) bias = load4(sums.bias + col + (h < n ? h : 0) * head_dim);
    x[h] = {x[h].x * scale + bias.x, x[h].y * scale + bias.y, x[h].z * scale + bias.z,
            x[h].w * scale + bias.w};
  }
}

// Four dimensions from `d` of a head, rotated: pairs of neighbours, or with the lane that holds the
// other half.
__device__ __forceinline__ float4 rotated_four(float4 x, const Rotation& rotation,
                                               const float4 (&angles)[2], std::uint32_t d,
                                               std::uint32_t lane) {
  if (!rotation.neox) {
    const float2 first = rotated({x.x, x.y}, {angles[0].x, angles[0].y});
    const float2 second = rotated({x.z, x.w}, {angles[0].z, angles[0].w});
    return {first.x, first.y, second.x, second.y};
  }
  const std::uint32_t half = rotation.n_rot / 2;
  const bool is_first = d < half;
  const auto other = static_cast<int>(is_first ? lane + half / 4 : lane - half / 4);
  const float own[4] = {x.x, x.y, x.z, x.w};
  const float2 angle[4] = {{angles[0].x, angles[0].y},
                           {angles[0].z, angles[0].w},
                           {angles[1].x, angles[1].y},
                           {angles[1].z, angles[1].w}};
  float out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float partner = __shfl_sync(0xFFFFFFFFu, own[i], other);
    const float2 both =
        rotated(is_first ? float2{own[i], partner} : float2{partner, own[i]}, angle[i]);
    out[i] = is_first ? both.x : both.y;
  }
  return {out[0], out[1], out[2], out[3]};
}

template <int kParts>
__global__ void __launch_bounds__(kThreads, kParts == 3   ? 2
                                            : kParts == 2 ? 4
                                                          : 3) prepare_whole_heads(HeadJobs jobs) {
  wait_for_predecessor();
  let_successor_start();
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t item = blockIdx.x * kWarps + threadIdx.x / 32;
  for (int j = jobs.count - 1; j >= 0; --j) {  // what was written last is still in the cache
    const HeadJob& job = jobs.job[j];
    const std::uint32_t n_groups = (job.n_heads + kGroup - 1) / kGroup;
    const std::uint32_t n_items = job.from.n_rows * n_groups;
    if (item >= n_items) {
      item -= n_items;
      continue;
    }
    const std::uint32_t row = item / n_groups;
    const std::uint32_t first_head = item % n_groups * kGroup;
    const std::uint32_t d = 4 * lane;
    const bool exists = d < jobs.head_dim;
    float4 x[kGroup];
    load_group<kParts>(job, row, first_head * jobs.head_dim + (exists ? d : 0), jobs.head_dim,
                       job.n_heads - first_head, x);
    if (!exists) {
#pragma unroll
      for (float4& each : x) each = {};
    }
    if (job.rotation.table) {
      const std::uint32_t half = job.rotation.n_rot / 2;
      const auto* table = reinterpret_cast<const float*>(job.rotation.table + row * half);
      float4 angles[2] = {};
      if (exists && !job.rotation.neox) angles[0] = load4(table + d);
      if (exists && job.rotation.neox) {
        angles[0] = load4(table + 2 * (d % half));
        angles[1] = load4(table + 2 * (d % half) + 4);
      }
#pragma unroll
      for (float4& each : x) each = rotated_four(each, job.rotation, angles, d, lane);
    }
    unsigned largest_scale = 0;
#pragma unroll
    for (std::uint32_t h = 0; h < kGroup; ++h) {
      // As words, absolute values are in order, and NaN is above all numbers.
      constexpr unsigned kSign = 0x7FFFFFFFu;
      const unsigned most =
          max(max(__float_as_uint(x[h].x) & kSign, __float_as_uint(x[h].y) & kSign),
              max(__float_as_uint(x[h].z) & kSign, __float_as_uint(x[h].w) & kSign));
      const float scale =
          row_scale(__uint_as_float(__reduce_max_sync(0xFFFFFFFFu, most)), kValueExponent);
      const float inverse = inverse_of(scale);
      if (first_head + h >= job.n_heads) continue;
      largest_scale = max(largest_scale, __float_as_uint(scale));
      const std::uint64_t place = static_cast<std::uint64_t>(first_head + h) * job.to.n_rows + row;
      const __half2 both[2] = {__floats2half2_rn(x[h].x * inverse, x[h].y * inverse),
                               __floats2half2_rn(x[h].z * inverse, x[h].w * inverse)};
      if (d < job.to.stride)
        *reinterpret_cast<uint2*>(job.to.values + place * job.to.stride + d) = {
            *reinterpret_cast<const unsigned*>(&both[0]),
            *reinterpret_cast<const unsigned*>(&both[1])};
      if (lane == 0) job.to.scale[place] = scale;
    }
    if (lane == 0 && job.to.group_scale)
      job.to.group_scale[static_cast<std::uint64_t>(item % n_groups) * job.to.n_rows + row] =
          __uint_as_float(largest_scale);
    return;
  }
}

}  // namespace

bool are_whole(const HeadJobs& jobs) {
  if (jobs.head_dim % 8 != 0 || jobs.head_dim > 128) return false;
  for (int j = 0; j < jobs.count; ++j) {
    const Rotation& rotation = jobs.job[j].rotation;
    const bool rotates_whole = !rotation.table || rotation.n_rot == jobs.head_dim;
    if (!rotates_whole || rotation.head_norm || !jobs.job[j].to.values) return false;
    // Heads of a group are equally far from each other.
    if (jobs.job[j].sums.n > 0 && jobs.head_dim % Sums::kBlockCols != 0) return false;
  }
  return true;
}

// Two parts are usual where keys and values are as wide as queries, three where they are not.
static auto whole_heads_kernel(const HeadJobs& jobs) {
  const auto all_have = [&](std::uint32_t n) {
    for (int j = 0; j < jobs.count; ++j)
      if (jobs.job[j].sums.n != n) return false;
    return true;
  };
  return all_have(2)   ? prepare_whole_heads<2>
         : all_have(3) ? prepare_whole_heads<3>
                       : prepare_whole_heads<0>;
}

void launch_angles(const std::int32_t* positions, std::uint32_t n_rows, const RopeParams& params,
                   float2* table, cudaStream_t stream) {
  const std::uint32_t n = n_rows * (params.n_rot / 2);
  if (n == 0) return;
  launch("launching angles", angles, (n + kThreads - 1) / kThreads, kThreads, 0, stream,
         AngleArgs{positions, n_rows, params.n_rot, params.theta, params.scale, table});
}

void launch_heads(const HeadJobs& jobs, cudaStream_t stream) {
  const bool whole = are_whole(jobs);
  std::uint32_t items = 0;
  for (int j = 0; j < jobs.count; ++j) {
    const HeadJob& job = jobs.job[j];
    items += job.from.n_rows * (whole ? (job.n_heads + kGroup - 1) / kGroup : job.n_heads);
  }
  if (items == 0) return;
  const auto kernel = whole                  ? whole_heads_kernel(jobs)
                      : jobs.head_dim <= 64  ? prepare_heads<1>
                      : jobs.head_dim <= 128 ? prepare_heads<2>
                                             : prepare_heads<4>;
  launch("launching prepare_heads", kernel, (items + kWarps - 1) / kWarps, kThreads, 0, stream,
         jobs);
}

const void* heads_kernel() { return reinterpret_cast<const void*>(angles); }

}  // namespace dllm::cuda
