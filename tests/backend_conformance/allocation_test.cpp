// A step within the reserved limits allocates nothing: this program counts every operator new,
// aligned_alloc and mmap of the process while a whole step runs, on all threads.
#include <dlfcn.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "conformance.hpp"

namespace {

std::atomic<bool> g_counting{false};
std::atomic<int> g_allocations{0};

void count() {
  if (g_counting.load(std::memory_order_relaxed)) g_allocations.fetch_add(1);
}

void* allocate(std::size_t bytes) {
  count();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

extern "C" __attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment,
                                                                      std::size_t bytes) noexcept {
  count();
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

extern "C" __attribute__((visibility("default"))) void* mmap(void* address, std::size_t bytes,
                                                             int protection, int flags, int file,
                                                             off_t offset) noexcept {
  count();
  using Mmap = void* (*)(void*, std::size_t, int, int, int, off_t);
  static const auto next = reinterpret_cast<Mmap>(dlsym(RTLD_NEXT, "mmap"));
  return next(address, bytes, protection, flags, file, offset);
}

namespace dllm::test {
namespace {

constexpr std::uint32_t kWidth = 256;
constexpr std::uint32_t kFfn = 512;
constexpr std::uint32_t kVocab = 1200;
constexpr std::uint32_t kHeads = 4;
constexpr std::uint32_t kMaxTokens = 70;

// One layer and the head, all operations.
class Step {
 public:
  explicit Step(Backend& backend) : backend_(backend) {
    for (const char* name : {"q", "k", "v", "o"}) file_.add(name, DType::q4_k, kWidth, kWidth, 1);
    file_.add("gate", DType::q4_k, kFfn, kWidth, 2);
    file_.add("up", DType::f16, kFfn, kWidth, 3);
    file_.add("down", DType::q6_k, kWidth, kFfn, 4);
    file_.add("output", DType::q6_k, kVocab, kWidth, 5);
    file_.add("embedding", DType::q4_k, kVocab, kWidth, 6);
    file_.add_vector("norm", random_floats(kWidth, 7, 2));
    for (const char* name : {"q", "k", "v", "o", "gate", "up", "down", "output"})
      weights_[name] = file_.import_to(backend, name);
    weights_["embedding"] = file_.import_to(backend, "embedding", WeightRole::embedding);
    weights_["norm"] = file_.import_to(backend, "norm", WeightRole::replicated);
    for (const char* name : {"x", "q", "k", "v", "attention", "scored"})
      buffers_[name] = backend.make_buffer(kMaxTokens, kWidth);
    ids_ = backend.make_index_list(kMaxTokens);
    positions_ = backend.make_index_list(kMaxTokens);
    spans_ = backend.make_attention_spans(2);
    StepLimits limits;
    limits.max_tokens = limits.max_score_rows = limits.max_sequence_length = kMaxTokens;
    limits.max_sequences = 2;
    limits.width = kWidth;
    limits.max_cols = limits.ffn_cols = kFfn;
    limits.n_vocab = kVocab;
    limits.max_heads = kHeads;
    backend.reserve(limits);
    stats_.reserve(kMaxTokens, 1, 4);
    for (std::uint32_t i = 0; i < kMaxTokens; ++i) all_[i] = i;
  }

  // Two sequences that make n tokens together (n >= 2); the first half streams, the second is
  // filtered.
  void run(std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) list_[i] = static_cast<std::int32_t>(i);
    ids_->write({list_.data(), n});
    positions_->write({list_.data(), n});
    const std::uint32_t half = n / 2;
    const std::array<AttentionSpan, 2> spans = {
        {{0, half, 0, half, MaskKind::full}, {half, n - half, half, n - half, MaskKind::full}}};
    spans_->write(spans);
    const auto view = [&](const char* name) { return buffers_.at(name)->rows(n); };
    const auto weight = [&](const char* name) -> const Weight& { return *weights_.at(name); };
    backend_.embed(weight("embedding"), *ids_, view("x"));
    const std::array<Projection, 3> projections = {{{&weight("q"), nullptr, view("q")},
                                                    {&weight("k"), nullptr, view("k")},
                                                    {&weight("v"), nullptr, view("v")}}};
    backend_.norm_linear(view("x"), &weight("norm"), 1e-5F, projections);
    RopeParams rope;
    rope.n_heads = kHeads;
    rope.head_dim = rope.n_rot = kWidth / kHeads;
    backend_.rope(view("q"), *positions_, rope);
    backend_.rope(view("k"), *positions_, rope);
    backend_.attention(view("q"), view("k"), view("v"), *spans_,
                       {kHeads, kHeads, kWidth / kHeads, 0.125F}, view("attention"));
    backend_.linear_residual(view("attention"), weight("o"), nullptr, view("x"));
    backend_.gated_mlp(view("x"), weight("norm"), 1e-5F, weight("gate"), weight("up"),
                       weight("down"));
    backend_.copy_rows(view("x"), *positions_, view("scored"));
    std::array<StatsRequest, 2> requests;
    requests[0].positions = {all_.data(), half};
    requests[0].want = kStatSampled | kStatEntropy | kStatTop2;
    requests[0].temperature = 1;
    requests[0].n_tokens = kVocab;
    requests[1] = requests[0];
    requests[1].first_row = half;
    requests[1].positions = {all_.data(), n - half};
    requests[1].top_p = 0.9F;
    requests[1].top_k = 50;
    requests[1].want |= kStatTopList;
    requests[1].top_list = 4;
    backend_.head_stats(view("scored"), weight("norm"), 1e-5F, weight("output"), requests, stats_);
  }

 private:
  Backend& backend_;
  WeightFile file_;
  std::map<std::string, std::unique_ptr<Weight>, std::less<>> weights_;
  std::map<std::string, std::unique_ptr<Buffer>, std::less<>> buffers_;
  std::unique_ptr<IndexList> ids_;
  std::unique_ptr<IndexList> positions_;
  std::unique_ptr<AttentionSpans> spans_;
  HeadStats stats_;
  std::array<std::uint32_t, kMaxTokens> all_{};
  std::array<std::int32_t, kMaxTokens> list_{};
};

TEST(Allocations, AFullStepAfterASmallOneMakesNone) {
  for (const std::string& isa : usable_isas()) {
    for (const std::string products : {"fast", "exact", "f32"}) {
      SCOPED_TRACE(isa + " " + products);
      const auto backend = make_backend({isa, products, 2});
      Step step(*backend);
      step.run(2);  // oneTBB starts its threads with the first work
      g_allocations = 0;
      g_counting = true;
      step.run(kMaxTokens);
      g_counting = false;
      EXPECT_EQ(g_allocations.load(), 0);
    }
  }
}

TEST(Allocations, TheCounterCounts) {
  g_allocations = 0;
  g_counting = true;
  const auto backend = make_backend({"portable"});
  const auto buffer = backend->make_buffer(100, 100);   // aligned_alloc
  const auto large = backend->make_buffer(3000, 1000);  // mmap
  g_counting = false;
  EXPECT_GE(g_allocations.load(), 4);
}

}  // namespace
}  // namespace dllm::test
