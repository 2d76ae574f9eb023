// Rows with top_p, top_k or a list. One block per row: the logits lie in device memory and are
// walked several times; every reduction has a fixed order or is in integers, so a run repeats bit
// for bit.
#include "head_figures.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "reduce.cuh"

namespace dllm::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr std::uint32_t kAhead = 8;  // logits that a thread reads before it looks at the first

// Which ids a filter keeps: those above `logit`, and those equal to it up to id `last_equal`.
struct Keep {
  float logit = -INFINITY;
  std::uint32_t last_equal = kNoId;
  __device__ bool has(float l, std::uint32_t id) const {
    return l != -INFINITY && (l > logit || (l == logit && id <= last_equal));
  }
};

struct Shared {
  double doubles[32];
  float floats[32];
  std::uint32_t words[32];
  Best bests[32];
  unsigned long long bins[256];
  unsigned long long target;
  std::uint32_t bin;
  std::uint32_t count;
};

struct Smaller {
  __device__ std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    return a < b ? a : b;
  }
};

__device__ Best shuffle(Best best, int offset) {
  return {__shfl_xor_sync(0xFFFFFFFFu, best.value, offset),
          __shfl_xor_sync(0xFFFFFFFFu, best.id, offset)};
}

__device__ Best reduce_best(Best best, Shared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int offset = 16; offset > 0; offset /= 2) best = BetterDraw{}(best, shuffle(best, offset));
  __syncthreads();
  if (lane == 0) shared.bests[threadIdx.x / 32] = best;
  __syncthreads();
  best = shared.bests[lane];
  for (int offset = 16; offset > 0; offset /= 2) best = BetterDraw{}(best, shuffle(best, offset));
  return best;
}

// A float's bits in an order in which larger numbers are larger words.
__device__ std::uint32_t ordered(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float from_ordered(std::uint32_t word) {
  return __uint_as_float((word & 0x80000000u) != 0 ? word & 0x7FFFFFFFu : ~word);
}

class Row {
 public:
  __device__ Row(const HeadCall& call, Shared& shared)
      : call_(call),
        shared_(shared),
        row_(call.rows[blockIdx.x]),
        request_(call.requests[row_.request]),
        logits_(call.logits + static_cast<std::uint64_t>(row_.logits_row) * call.n_vocab) {}

  __device__ void run() {
    const bool bad = blend_and_check();
    suppress_everywhere();
    const float top = largest(Keep{});
    RowAnswer answer;
    if (bad || top == -INFINITY) {
      answer.non_finite = 1;
      finish_non_finite(answer);
      return;
    }
    const std::uint32_t argmax = first_equal(top);
    answer.argmax = static_cast<std::int32_t>(argmax);
    const Keep keep = request_.filters ? filter(top) : Keep{};
    std::uint32_t sampled = argmax;
    if (request_.draws) sampled = draw(keep);
    answer.sampled = static_cast<std::int32_t>(sampled);
    const float sampled_logit = logits_[sampled];
    __syncthreads();
    hide(request_.suppress_confidence);
    const Keep domain = request_.filtered_domain && request_.filters ? keep : Keep{};
    confidence(answer, domain, sampled, sampled_logit);
    if (threadIdx.x == 0) call_.answers[blockIdx.x] = answer;
  }

 private:
  // visit(logit, id) for every id of this thread, ascending. Reads are asked for several at a time:
  // one after the other, a walk is their latencies.
  template <typename Visit>
  __device__ __forceinline__ void walk(const Visit& visit) const {
    for (std::uint32_t base = threadIdx.x; base < call_.n_vocab; base += kAhead * kThreads) {
      float l[kAhead];
#pragma unroll
      for (std::uint32_t i = 0; i < kAhead; ++i) {
        const std::uint32_t v = base + i * kThreads;
        l[i] = v < call_.n_vocab ? logits_[v] : 0;
      }
#pragma unroll
      for (std::uint32_t i = 0; i < kAhead; ++i) {
        const std::uint32_t v = base + i * kThreads;
        if (v < call_.n_vocab) visit(l[i], v);
      }
    }
  }

  // l = u + (w + 1)(c - u); true where a logit is NaN or +inf.
  __device__ bool blend_and_check() {
    const float* pair = call_.logits + static_cast<std::uint64_t>(row_.pair_row) * call_.n_vocab;
    bool bad = false;
    walk([&](float l, std::uint32_t v) {
      if (request_.guided) {
        l = blended(request_, l, pair[v]);
        logits_[v] = l;
      }
      bad |= !(l < INFINITY);
    });
    return __syncthreads_or(bad) != 0;
  }

  __device__ void hide(IdRange range) {
    for (std::uint32_t i = threadIdx.x; i < range.count; i += kThreads) {
      const auto id = static_cast<std::uint32_t>(call_.ids[range.first + i]);
      if (id < call_.n_vocab) logits_[id] = -INFINITY;
    }
    __syncthreads();
  }

  __device__ void suppress_everywhere() {
    if (!request_.allow_all) {
      for (std::uint32_t v = request_.n_tokens + threadIdx.x; v < call_.n_vocab; v += kThreads)
        logits_[v] = -INFINITY;
      if (threadIdx.x == 0 && static_cast<std::uint32_t>(request_.mask_id) < call_.n_vocab)
        logits_[request_.mask_id] = -INFINITY;
    }
    hide(request_.suppress_both);
  }

  __device__ float largest(Keep keep, std::uint32_t without = kNoId) {
    float top = -INFINITY;
    walk([&](float l, std::uint32_t v) {
      if (v != without && keep.has(l, v)) top = fmaxf(top, l);
    });
    return reduce_block(top, -INFINITY, Larger{}, shared_.floats);
  }

  __device__ std::uint32_t first_equal(float value) {
    std::uint32_t first = kNoId;
    walk([&](float l, std::uint32_t v) {
      if (l == value) first = min(first, v);
    });
    return reduce_block(first, kNoId, Smaller{}, shared_.words);
  }

  // Mass of an id relative to the most probable one, as an integer: sums do not depend on order.
  __device__ unsigned long long mass(float l, float top) const {
    constexpr double kUnit = 17592186044416.0;  // 2^44; 2^20 ids of it fit
    return static_cast<unsigned long long>(exp(tempered(request_, l) - tempered(request_, top)) *
                                           kUnit);
  }

  // Walks ordered words from the largest down, eight bits at a time, to where the summed weight of
  // the kept ids first exceeds `target`. Returns that word and what lies above it; false where it
  // never does.
  template <typename Weight>
  __device__ bool select(Keep keep, unsigned long long target, Weight weight, std::uint32_t& word,
                         unsigned long long& above) {
    word = 0;
    above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < 256; i += kThreads) shared_.bins[i] = 0;
      __syncthreads();
      const std::uint32_t prefix_mask = shift == 24 ? 0 : 0xFFFFFFFFu << (shift + 8);
      walk([&](float l, std::uint32_t v) {
        const std::uint32_t key = ordered(l);
        if (keep.has(l, v) && (key & prefix_mask) == (word & prefix_mask))
          atomicAdd(&shared_.bins[key >> shift & 255], weight(l));
      });
      __syncthreads();
      if (threadIdx.x == 0) {
        int bin = 255;
        unsigned long long sum = above;
        while (bin >= 0 && sum + shared_.bins[bin] <= target) sum += shared_.bins[bin--];
        shared_.bin = bin < 0 ? kNoId : static_cast<std::uint32_t>(bin);
        shared_.target = sum;
      }
      __syncthreads();
      if (shared_.bin == kNoId) return false;
      word |= shared_.bin << shift;
      above = shared_.target;
    }
    return true;
  }

  // Id of the n-th (from 1) logit equal to `value`, in id order.
  __device__ std::uint32_t nth_equal(float value, unsigned long long n) {
    unsigned long long seen = 0;
    for (std::uint32_t base = 0; base < call_.n_vocab; base += kThreads) {
      const std::uint32_t v = base + threadIdx.x;
      const int here = __syncthreads_count(v < call_.n_vocab && logits_[v] == value);
      if (seen + here >= n) {
        if (threadIdx.x == 0) {
          std::uint32_t id = base;
          for (;; ++id)
            if (logits_[id] == value && ++seen == n) break;
          shared_.count = id;
        }
        __syncthreads();
        return shared_.count;
      }
      seen += here;
    }
    return kNoId;
  }

  __device__ Keep filter(float top) {
    Keep keep;
    std::uint32_t word = 0;
    unsigned long long above = 0;
    if (request_.top_p < 1) {
      unsigned long long total = 0;
      walk([&](float l, std::uint32_t) {
        if (l != -INFINITY) total += mass(l, top);
      });
      total = sum_words(total);
      const auto target = static_cast<unsigned long long>(static_cast<double>(request_.top_p) *
                                                          static_cast<double>(total));
      if (select(keep, target, [&](float l) { return mass(l, top); }, word, above)) {
        keep.logit = from_ordered(word);
        keep.last_equal = nth_equal(keep.logit, (target - above) / mass(keep.logit, top) + 1);
      }
    }
    if (request_.top_k > 0 && request_.top_k < call_.n_vocab &&
        select(keep, request_.top_k - 1, [](float) { return 1ull; }, word, above)) {
      const float kth = from_ordered(word);
      if (kth > keep.logit) keep = {kth, kNoId};
    }
    return keep;
  }

  __device__ unsigned long long sum_words(unsigned long long value) {
    if (threadIdx.x == 0) shared_.target = 0;
    __syncthreads();
    atomicAdd(&shared_.target, value);
    __syncthreads();
    return shared_.target;
  }

  // argmax over kept ids of z - ln(-ln u).
  __device__ std::uint32_t draw(Keep keep) {
    Best best = {-INFINITY, kNoId};
    for (std::uint32_t block = threadIdx.x; block * 4 < call_.n_vocab; block += kThreads) {
      float l[4];
      bool any = false;
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j) {
        const std::uint32_t id = 4 * block + j;
        l[j] = id < call_.n_vocab ? logits_[id] : -INFINITY;
        any |= keep.has(l[j], id);
      }
      if (!any) continue;  // most, where a filter keeps few: no words are made for them
      std::uint32_t words[4];
      draw_words(request_, row_, block, words);
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j)
        if (keep.has(l[j], 4 * block + j))
          best = BetterDraw{}(best, {noised(request_, l[j], words[j]), 4 * block + j});
    }
    return reduce_best(best, shared_).id;
  }

  __device__ void confidence(RowAnswer& answer, Keep domain, std::uint32_t sampled,
                             float sampled_logit) {
    const float inverse = request_.inverse_temperature;
    Distribution d;
    d.top = largest(domain);
    if (d.top != -INFINITY) {
      walk([&](float l, std::uint32_t v) {
        if (!domain.has(l, v)) return;
        const float below = (l - d.top) * inverse;
        const double e = expf(below);
        d.sum += e;
        if (e > 0) d.weighted += e * static_cast<double>(below);
      });
      d.sum = reduce_block(d.sum, 0.0, Add{}, shared_.doubles);
      d.weighted = reduce_block(d.weighted, 0.0, Add{}, shared_.doubles);
      d.second = largest(domain, first_equal(d.top));
    }
    write_figures(call_, request_, d, sampled, sampled_logit, answer);
    for (std::uint32_t j = threadIdx.x; j < request_.prob_of.count; j += kThreads) {
      const auto id = static_cast<std::uint32_t>(call_.ids[request_.prob_of.first + j]);
      const bool in = id < call_.n_vocab && domain.has(logits_[id], id);
      call_.prob_of[static_cast<std::uint64_t>(blockIdx.x) * call_.prob_of_stride + j] =
          in ? static_cast<float>(d.probability(logits_[id], inverse)) : 0.0f;
    }
    if (request_.top_list > 0) list_top(domain, d);
  }

  // The k most probable ids in order; where fewer have a probability above 0, the lowest other ids
  // follow with 0. Places beyond the vocabulary get id -1.
  __device__ void list_top(Keep domain, const Distribution& d) {
    std::int32_t* ids = call_.top_ids + static_cast<std::uint64_t>(blockIdx.x) * call_.top_stride;
    float* probs = call_.top_probs + static_cast<std::uint64_t>(blockIdx.x) * call_.top_stride;
    Best last = {INFINITY, 0};
    std::uint32_t listed = 0;
    for (; listed < request_.top_list; ++listed) {
      Best best = {-INFINITY, kNoId};
      walk([&](float logit, std::uint32_t v) {
        const double l = logit;
        const bool after = l < last.value || (l == last.value && v > last.id);
        if (after && domain.has(logit, v)) best = BetterDraw{}(best, {l, v});
      });
      best = reduce_best(best, shared_);
      const double p = best.id == kNoId ? 0.0
                                        : d.probability(static_cast<float>(best.value),
                                                        request_.inverse_temperature);
      if (!(p > 0)) break;
      if (threadIdx.x == 0) {
        ids[listed] = static_cast<std::int32_t>(best.id);
        probs[listed] = static_cast<float>(p);
      }
      last = best;
    }
    if (threadIdx.x == 0) fill_top(ids, probs, listed);
  }

  __device__ void fill_top(std::int32_t* ids, float* probs, std::uint32_t listed) const {
    std::uint32_t other = 0;
    for (std::uint32_t j = listed; j < request_.top_list; ++j) {
      for (bool taken = true; taken;) {
        taken = false;
        for (std::uint32_t i = 0; i < listed; ++i)
          taken |= ids[i] == static_cast<std::int32_t>(other);
        if (taken) ++other;
      }
      ids[j] = other < call_.n_vocab ? static_cast<std::int32_t>(other++) : -1;
      probs[j] = 0;
    }
  }

  __device__ void finish_non_finite(const RowAnswer& answer) {
    if (threadIdx.x != 0) return;
    call_.answers[blockIdx.x] = answer;
    for (std::uint32_t j = 0; j < request_.prob_of.count; ++j)
      call_.prob_of[static_cast<std::uint64_t>(blockIdx.x) * call_.prob_of_stride + j] = 0;
    if (request_.top_list > 0)
      fill_top(call_.top_ids + static_cast<std::uint64_t>(blockIdx.x) * call_.top_stride,
               call_.top_probs + static_cast<std::uint64_t>(blockIdx.x) * call_.top_stride, 0);
  }

  const HeadCall& call_;
  Shared& shared_;
  DeviceRow row_;
  DeviceRequest request_;
  float* logits_;
};

__global__ void __launch_bounds__(kThreads) answer_rows(HeadCall call) {
  __shared__ Shared shared;
  wait_for_predecessor();
  let_successor_start();
  if (!call.requests[call.rows[blockIdx.x].request].whole) return;
  Row(call, shared).run();
}

}  // namespace

void launch_whole_rows(const HeadCall& call, std::uint32_t n_rows, cudaStream_t stream) {
  launch("launching answer_rows", answer_rows, n_rows, kThreads, 0, stream, call);
}

const void* head_whole_kernel() { return reinterpret_cast<const void*>(answer_rows); }

}  // namespace dllm::cuda
