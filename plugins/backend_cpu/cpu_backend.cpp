#include "cpu_backend.hpp"

#include <algorithm>

#include "dllm/error.hpp"
#include "dllm/quant.hpp"
#include "machine.hpp"
#include "peak.hpp"

namespace dllm::cpu {
namespace {

[[noreturn]] void refuse_type(const TensorInfo& tensor) {
  throw Error(ErrorCode::unsupported,
              "the CPU backend has no decoder for type " + std::string(dtype_name(tensor.dtype)),
              "tensor " + tensor.name, "use a file quantised to another type, for example Q4_K_M");
}

}  // namespace

const Matrix& matrix_of(const Weight& weight) {
  const auto* matrix = dynamic_cast<const Matrix*>(&weight);
  DLLM_ASSERT(matrix != nullptr);
  return *matrix;
}

const float* vector_of(const Weight& weight, std::uint32_t n) {
  const auto* vector = dynamic_cast<const Vector*>(&weight);
  DLLM_ASSERT(vector != nullptr && vector->n_cols() == n);
  return vector->values();
}

void CpuIndexList::write(std::span<const std::int32_t> values) {
  DLLM_ASSERT(values.size() <= values_.capacity());
  values_.assign(values.begin(), values.end());
}

void CpuAttentionSpans::write(std::span<const AttentionSpan> spans) {
  DLLM_ASSERT(spans.size() <= spans_.capacity());
  for (const AttentionSpan& span : spans) {
    if (span.mask == MaskKind::full) continue;
    throw Error(ErrorCode::unsupported,
                "attention mask '" + std::string(mask_kind_name(span.mask)) + "' is not built",
                "backend cpu", "only full attention can be run");
  }
  spans_.assign(spans.begin(), spans.end());
}

namespace {

const char* mode_name(ProductMode mode) {
  switch (mode) {
    case ProductMode::fast:
      return "fast";
    case ProductMode::exact:
      return "exact";
    default:
      return "f32";
  }
}

}  // namespace

CpuBackend::CpuBackend(const Isa& isa, const CpuOptions& options)
    : isa_(isa),
      kernels_(*isa.kernels),
      multiplier_{*isa.kernels, options.products == ProductMode::fast ? isa.fast : nullptr,
                  options.products == ProductMode::fast ? isa.brains : nullptr, options.products},
      options_(options),
      processor_(processor_name({})),
      arena_(options.n_threads),
      attention_work_(options.n_threads) {
  for (unsigned i = 0; i < options.n_threads; ++i)
    scratch_.push_back(std::make_unique<ThreadScratch>());
}

CpuBackend::~CpuBackend() = default;

DeviceInfo CpuBackend::device() const {
  const MemoryFacts memory = memory_facts({});
  DeviceInfo info;
  info.backend = "cpu";
  info.isa = isa_.name;
  info.threads = options_.n_threads;
  info.name = processor_ + ", " + std::to_string(info.threads) +
              (info.threads == 1 ? " thread, " : " threads, ") + info.isa + ", " +
              mode_name(multiplier_.mode) + " products";
  info.total_bytes = memory.total_bytes;
  info.available_bytes = memory.available_bytes;
  return info;
}

bool CpuBackend::set_profile(ProfileSink* sink) {
  profile_ = sink;
  arena_.set_profile(sink);
  return true;
}

std::optional<DevicePeak> CpuBackend::measure_peak() {
  return cpu::measure_peak(arena_, isa_.name, multiplier_.fast && isa_.name == "amx");
}

std::optional<MemoryReport> CpuBackend::memory_report() const {
  const HugePageFacts facts = huge_page_facts("/proc", "/sys");
  return MemoryReport{facts.resident_bytes, facts.huge_bytes, facts.granted};
}

bool CpuBackend::supports(Op op, DType weight_type) const {
  switch (op) {
    case Op::rope:
    case Op::attention:
    case Op::copy_rows:
      return true;  // no weights
    default:
      return can_decode(weight_type) && kBlockCols % dtype_info(weight_type).block_size == 0;
  }
}

std::unique_ptr<Buffer> CpuBackend::make_buffer(std::uint32_t max_rows, std::uint32_t n_cols) {
  require_memory(std::uint64_t{max_rows} * n_cols * sizeof(float), "activation buffer");
  return std::make_unique<CpuBuffer>(max_rows, n_cols);
}

std::unique_ptr<IndexList> CpuBackend::make_index_list(std::uint32_t capacity) {
  return std::make_unique<CpuIndexList>(capacity);
}

std::unique_ptr<AttentionSpans> CpuBackend::make_attention_spans(std::uint32_t capacity) {
  return std::make_unique<CpuAttentionSpans>(capacity);
}

void CpuBackend::log_memory() const {
  const HugePageFacts facts = huge_page_facts("/proc", "/sys");
  if (facts.resident_bytes == 0) return;
  constexpr std::uint64_t kMebibyte = 1u << 20;
  options_.log.info("cpu", std::to_string(facts.resident_bytes / kMebibyte) +
                               " MiB of weights and buffers, " +
                               std::to_string(100 * facts.huge_bytes / facts.resident_bytes) +
                               " % of it in huge pages (transparent_hugepage: " +
                               (facts.granted.empty() ? "not known" : facts.granted) + ")");
}

void CpuBackend::reserve(const StepLimits& limits) {
  const std::uint32_t tokens = std::max(limits.max_tokens, limits.max_score_rows);
  const std::uint32_t cols = std::max({limits.max_cols, limits.width, limits.ffn_cols, 1u});
  // Weights come before their steps, so their forms are all that a step will ask for.
  Needs needs = imported_;
  make_panel(input_, tokens, cols, needs);
  needs.values |= needs.blocks || needs.scaled_blocks;
  make_panel(hidden_, limits.max_tokens, std::max(limits.ffn_cols, 1u), needs);
  grow(hidden_tiles_done_, (limits.ffn_cols / kBlockCols + 1) * sizeof(std::uint32_t),
       "block counters");
  reserve_accumulators(tokens);
  for (auto& each : scratch_)
    grow(each->row, round_up(cols, kPadCols) * sizeof(float), "row scratch");
  // A head's queries are an input of the output projection, so max_cols holds max_heads of them.
  const std::uint32_t head_dim = cols / std::max(limits.max_heads, 1u);
  attention_work_.reserve(attention_math(),
                          {limits.max_sequence_length, limits.max_sequences, head_dim});
  for (RopeTable& each : rope_tables_) {
    each.positions.reserve(limits.max_tokens);
    grow(each.values, std::uint64_t{limits.max_tokens} * 2 * kRopeReserve * sizeof(float),
         "rope table");
  }
  rope_frequencies_.reserve(kRopeReserve / 2);
  reserve_head(limits.max_score_rows, limits.n_vocab);
  log_memory();
}

std::unique_ptr<Weight> CpuBackend::import_weight(std::shared_ptr<const GgufFile> file,
                                                  const TensorInfo& tensor, WeightRole role) {
  if (!supports(Op::norm_linear, tensor.dtype)) refuse_type(tensor);
  if (tensor.shape.empty() || tensor.shape.size() > 2)
    throw Error(ErrorCode::unsupported,
                "the CPU backend takes vectors and matrices, this tensor has " +
                    std::to_string(tensor.shape.size()) + " dimensions",
                "tensor " + tensor.name, "use a model without expert tensors");
  for (const std::uint64_t size : tensor.shape)
    if (size == 0 || size > 0x7FFFFFFFu)
      throw Error(ErrorCode::unsupported, "dimensions " + tensor.shape_text() + " are out of range",
                  "tensor " + tensor.name, "dimensions must be 1 to 2147483647");
  if (role == WeightRole::embedding) return std::make_unique<Table>(std::move(file), tensor);
  if (tensor.shape.size() == 1) return std::make_unique<Vector>(*file, tensor);
  require_memory(tensor.bytes, "tensor " + tensor.name);
  auto matrix = std::make_unique<Matrix>(*file, tensor, arena_);
  imported_.add(input_form(multiplier_, *matrix));
  return matrix;
}

}  // namespace dllm::cpu
