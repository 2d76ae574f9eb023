// Everything of Backend but attention (attention_call.cpp), the head (head_call.cpp) and the choice
// of products (product_call.cpp).
#include "cuda_backend.hpp"

#include <algorithm>
#include <string>

#include "attention.hpp"
#include "cuda_check.hpp"
#include "dllm/error.hpp"
#include "gemm_int8.hpp"
#include "kernel_loading.hpp"
#include "sums.hpp"

namespace dllm::cuda {
namespace {

const Matrix& matrix_of(const Weight& weight) {
  const auto* matrix = dynamic_cast<const Matrix*>(&weight);
  DLLM_ASSERT(matrix != nullptr);
  return *matrix;
}

const float* vector_of(const Weight* weight, std::uint32_t n) {
  if (!weight) return nullptr;
  const auto* vector = dynamic_cast<const Vector*>(weight);
  DLLM_ASSERT(vector != nullptr && vector->n_cols() == n);
  return vector->values();
}

const std::int32_t* values_of(const IndexList& list) {
  return static_cast<const CudaIndexList&>(list).values();
}

void count_work(EventTimer& timer, const Matrix& weight, std::uint32_t n_rows) {
  timer.add_work(2.0 * n_rows * weight.n_rows() * weight.n_cols(),
                 static_cast<double>(weight.packed().read_bytes()));
}

// Gate and up are column_split; of an output matrix, which is so, too, each two blocks share a
// step.
std::uint32_t step_cols_of(WeightRole role) {
  return role == WeightRole::column_split ? kGatedStepCols : kInt8Cols;
}

[[noreturn]] void refuse_type(const TensorInfo& tensor) {
  throw Error(ErrorCode::unsupported,
              "the CUDA backend has no kernel for type " + std::string(dtype_name(tensor.dtype)),
              "tensor " + tensor.name, "use a file quantised to another type, for example Q4_K_M");
}

}  // namespace

Stream::Stream(int device) {
  cuda_check(cudaSetDevice(device), "choosing the GPU");
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Stream::~Stream() {
  if (stream_) (void)cudaStreamDestroy(stream_);
}

CudaBackend::CudaBackend(const CudaOptions& options)
    : options_(options),
      stream_(options.device),
      sums_([this](std::span<const SummedRows> all) { launch_add_sums(all, stream_.get()); }) {
  cuda_check(cudaGetDeviceProperties(&properties_, options.device), "looking at the GPU");
  gemm_device_.n_multiprocessors = static_cast<std::uint32_t>(properties_.multiProcessorCount);
#if defined(DLLM_CUDA_HAS_90A)
  gemm_device_.has_warpgroups = properties_.major == 9 && properties_.minor == 0;
#endif
  mode_ = options.products.value_or(gemm_device_.has_warpgroups ? Products::mixed : Products::f16);
  const bool some_int8 = takes(mode_, Way::int8);
  if (some_int8 && !gemm_device_.has_warpgroups)
    throw Error(ErrorCode::unsupported,
                std::string("products=") + name_of(mode_) + " needs compute capability 9.0, " +
                    std::string(properties_.name) + " has " + std::to_string(properties_.major) +
                    "." + std::to_string(properties_.minor) +
                    (properties_.major == 9 ? ", but this build has no code for it" : ""),
                "backend cuda, option products",
                properties_.major == 9
                    ? "use products=f16, or build with 90a in DLLM_CUDA_ARCHITECTURES"
                    : "use products=f16");
  std::vector<const void*> kernels = {rows_kernel(),      panels_kernel(),    sums_kernel(),
                                      heads_kernel(),     attention_kernel(), head_stream_kernel(),
                                      head_whole_kernel()};
  if (gemm_device_.has_warpgroups) {
    kernels.insert(kernels.end(), {short_attention_kernel(), gemm_sm90_kernel()});
    if (some_int8) kernels.insert(kernels.end(), {gemm_int8_kernel(), gemm_int8_gated_kernel()});
  } else {
    kernels.push_back(gemm_sm80_kernel());
  }
  load_kernels(kernels);
}

DeviceInfo CudaBackend::device() const {
  const DeviceFree memory = device_free();
  DeviceInfo info;
  info.backend = "cuda";
  info.name = std::string(properties_.name) + ", " + name_of(mode_) + " products";
  info.isa = "sm_" + std::to_string(properties_.major) + std::to_string(properties_.minor);
  info.total_bytes = memory.total_bytes;
  info.available_bytes = memory.free_bytes;
  return info;
}

bool CudaBackend::supports(Op op, DType weight_type) const {
  switch (op) {
    case Op::rope:
    case Op::attention:
    case Op::copy_rows:
      return true;  // no weights
    default:
      return form_of(weight_type).has_value();
  }
}

void CudaBackend::require_memory(std::uint64_t bytes, const std::string& what) const {
  const std::uint64_t available = room_available(device_free(), options_.memory_limit);
  if (bytes <= available) return;
  throw Error(ErrorCode::resource,
              "needs " + std::to_string(bytes) + " bytes of GPU memory, " +
                  std::to_string(available) + " are available",
              what,
              std::string("free GPU memory, raise the limit, or use ") +
                  (mode_ == Products::f16 ? "" : "products=f16, ") +
                  "a smaller model or --backend cpu");
}

void CudaBackend::grow(DeviceMemory& memory, std::uint64_t bytes, const char* what) {
  if (memory.bytes() >= bytes) return;
  cudaStreamCaptureStatus recording = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(stream_.get(), &recording), "asking whether a step is recorded");
  DLLM_ASSERT(recording == cudaStreamCaptureStatusNone);  // reserve() takes what a step needs
  graphs_.clear();                                        // they point to the old place
  cuda_check(cudaStreamSynchronize(stream_.get()), "waiting for the GPU");
  memory = DeviceMemory();
  require_memory(bytes, what);
  memory = DeviceMemory(bytes, what);
}

std::unique_ptr<Buffer> CudaBackend::make_buffer(std::uint32_t max_rows, std::uint32_t n_cols) {
  graphs_.clear();
  require_memory(std::uint64_t{max_rows} * n_cols * sizeof(float), "activation buffer");
  return std::make_unique<CudaBuffer>(max_rows, n_cols);
}

std::unique_ptr<IndexList> CudaBackend::make_index_list(std::uint32_t capacity) {
  return std::make_unique<CudaIndexList>(capacity, stream_.get());
}

std::unique_ptr<AttentionSpans> CudaBackend::make_attention_spans(std::uint32_t capacity) {
  return std::make_unique<CudaAttentionSpans>(capacity, stream_.get(), long_lists_);
}

void CudaBackend::reserve(const StepLimits& limits) {
  graphs_.clear();
  staging_ = {};  // weights are in
  const std::uint64_t rows = std::max({limits.max_tokens, limits.max_score_rows, 1u});
  const std::uint32_t cols = std::max({limits.max_cols, limits.width, limits.ffn_cols, 1u});
  const auto n_rows = static_cast<std::uint32_t>(rows);
  Inputs unused;
  for (const Way way : {Way::f16, Way::int8}) {
    if (!takes(mode_, way)) continue;
    place_input(input_, way, n_rows, cols, unused);
    place_input(hidden_, way, n_rows, std::max(limits.ffn_cols, 1u), unused);
  }
  hidden_rows(gate_, n_rows, limits.ffn_cols);
  if (takes(mode_, Way::f16)) hidden_rows(up_, n_rows, limits.ffn_cols);
  reserve_gemm_work(rows);
  reserve_attention(rows, limits.max_heads, cols / std::max(limits.max_heads, 1u));
  if (limits.n_vocab > 0 && limits.max_score_rows > 0) {
    const std::uint64_t chunk =
        std::min<std::uint64_t>(chunk_rows(limits.n_vocab), 2ull * limits.max_score_rows);
    grow(logits_, chunk * limits.n_vocab * sizeof(float), "logits");
    reserve_answers(static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, rows)),
                    limits.n_vocab);
  }
}

void CudaBackend::check_room(std::span<const PlannedImport> imports) const {
  // A model before this one may not have fitted.
  const bool is_open = !options_.products && !has_matrices_ && gemm_device_.has_warpgroups;
  if (is_open) mode_ = Products::mixed;
  const std::uint64_t needed = room_needed(imports, mode_);
  const std::uint64_t available = room_available(device_free(), options_.memory_limit);
  std::string reason;
  if (is_open && needed > available) {
    mode_ = Products::f16;
    reason = ", because mixed products need " + std::to_string(needed) +
             " bytes of GPU memory and " + std::to_string(available) + " are available";
  }
  options_.log.info("cuda", std::string("products=") + name_of(mode_) + reason);
  require_memory(room_needed(imports, mode_), "the weights of the model");
}

std::unique_ptr<Weight> CudaBackend::import_weight(std::shared_ptr<const GgufFile> file,
                                                   const TensorInfo& tensor, WeightRole role) {
  if (!form_of(tensor.dtype)) refuse_type(tensor);
  if (tensor.shape.empty() || tensor.shape.size() > 2)
    throw Error(ErrorCode::unsupported,
                "the CUDA backend takes vectors and matrices, this tensor has " +
                    std::to_string(tensor.shape.size()) + " dimensions",
                "tensor " + tensor.name, "use a model without expert tensors");
  for (const std::uint64_t size : tensor.shape)
    if (size == 0 || size > 0x7FFFFFFFu)
      throw Error(ErrorCode::unsupported, "dimensions " + tensor.shape_text() + " are out of range",
                  "tensor " + tensor.name, "dimensions must be 1 to 2147483647");
  const std::string what = "tensor " + tensor.name;
  if (role == WeightRole::embedding) {
    require_memory(tensor.bytes, what);
    return std::make_unique<Table>(*file, tensor, stream_.get());
  }
  if (tensor.shape.size() == 1) return std::make_unique<Vector>(*file, tensor, stream_.get());
  require_memory(packed_shape(tensor).bytes(), what);
  has_matrices_ = true;
  auto matrix = std::make_unique<Matrix>(*file, tensor, way_of(mode_, tensor, role),
                                         step_cols_of(role), staging_, stream_.get());
  note_reader(role, *matrix);
  return matrix;
}

Rows CudaBackend::rows_of(const TensorView& view) {
  sums_.settle(stored_rows(view).values);
  rotations_.settle(stored_rows(view).values, stream_.get());
  return stored_rows(view);
}

SummedRows CudaBackend::summed_rows_of(const TensorView& view) {
  rotations_.settle(stored_rows(view).values, stream_.get());
  return {stored_rows(view), sums_.take(stored_rows(view))};
}

Rows CudaBackend::changed_rows_of(const TensorView& view) {
  const Rows rows = rows_of(view);
  forget_prepared(rows);
  return rows;
}

Rows CudaBackend::new_rows_of(const TensorView& view) {
  const Rows rows = stored_rows(view);
  rotations_.overwritten(rows, stream_.get());
  sums_.overwritten(rows);
  forget_prepared(rows);
  return rows;
}

void CudaBackend::forget_prepared(const Rows& rows) {
  if (prepared_.rows.values == rows.values) prepared_ = {};
}

void CudaBackend::reserve_gemm_work(std::uint64_t n_rows) {
  grow(gemm_work_, gemm_work_floats(gemm_device_, n_rows) * sizeof(float), "parts of products");
}

void CudaBackend::embed(const Weight& table, const IndexList& ids, TensorView out) {
  const auto* rows = dynamic_cast<const Table*>(&table);
  DLLM_ASSERT(rows != nullptr);
  DLLM_ASSERT(out.n_rows == ids.size() && out.n_cols == table.n_cols());
  if (out.n_rows == 0) return;
  const EventTimer timer(profile_, Stage::embed, "embed", stream_.get());
  launch_embed(table.dtype(), rows->rows(), rows->row_bytes(), table.n_rows(), values_of(ids),
               new_rows_of(out), stream_.get());
}

void CudaBackend::norm_linear(TensorView x, const Weight* norm, float eps,
                              std::span<const Projection> projections) {
  for (const Projection& each : projections) {
    const Matrix& weight = matrix_of(*each.weight);
    DLLM_ASSERT(weight.n_cols() == x.n_cols && weight.n_rows() == each.out.n_cols);
    DLLM_ASSERT(each.out.n_rows == x.n_rows && each.out.buffer != x.buffer);
  }
  if (projections.empty() || x.n_rows == 0) return;
  EventTimer timer(profile_, Stage::qkv, "norm_linear", stream_.get());
  const SummedRows rows = summed_rows_of(x);
  products_.clear();
  for (const Projection& each : projections) {
    count_work(timer, matrix_of(*each.weight), x.n_rows);
    products_.push_back(
        {matrix_of(*each.weight).packed(),
         {new_rows_of(each.out).values, each.out.n_cols, vector_of(each.bias, each.out.n_cols)}});
  }
  std::stable_sort(products_.begin(), products_.end(), [](const Product& a, const Product& b) {
    return a.weight.way() < b.weight.way();  // those of a way are launched together
  });
  multiply(products_, inputs_for(products_, rows, vector_of(norm, x.n_cols), eps), true);
}

void CudaBackend::linear_residual(TensorView x, const Weight& weight, const Weight* bias,
                                  TensorView residual) {
  const Matrix& matrix = matrix_of(weight);
  DLLM_ASSERT(matrix.n_cols() == x.n_cols && matrix.n_rows() == residual.n_cols);
  DLLM_ASSERT(x.n_rows == residual.n_rows && x.buffer != residual.buffer);
  if (x.n_rows == 0) return;
  EventTimer timer(profile_, Stage::out, "linear_residual", stream_.get());
  count_work(timer, matrix, x.n_rows);
  const SummedRows rows = summed_rows_of(x);
  const Product to_residual[] = {{matrix.packed(),
                                  {changed_rows_of(residual).values, residual.n_cols,
                                   vector_of(bias, residual.n_cols), Store::add}}};
  multiply(to_residual, inputs_for(to_residual, rows, nullptr, 0), true);
}

void CudaBackend::gated_mlp(TensorView x, const Weight& norm, float eps, const Weight& gate,
                            const Weight& up, const Weight& down) {
  DLLM_ASSERT(gate.n_cols() == x.n_cols && up.n_cols() == x.n_cols);
  DLLM_ASSERT(gate.n_rows() == up.n_rows() && down.n_cols() == gate.n_rows());
  DLLM_ASSERT(down.n_rows() == x.n_cols);
  if (x.n_rows == 0) return;
  EventTimer timer(profile_, Stage::ffn, "gated_mlp", stream_.get());
  for (const Weight* each : {&gate, &up, &down}) count_work(timer, matrix_of(*each), x.n_rows);
  const Inputs hidden =
      hidden_inputs(matrix_of(gate), matrix_of(up), matrix_of(down), norm, eps, x);
  const Product to_residual[] = {
      {matrix_of(down).packed(), {changed_rows_of(x).values, x.n_cols, nullptr, Store::add}}};
  multiply(to_residual, hidden, true);
}

Rows CudaBackend::hidden_rows(DeviceMemory& memory, std::uint32_t n_rows, std::uint32_t n_cols) {
  grow(memory, std::uint64_t{n_rows} * n_cols * sizeof(float), "feed-forward activations");
  return {memory.as<float>(), n_rows, n_cols};
}

// silu(gate y) * (up y), y = RMSNorm(x): made where the two products are, or between kernels.
Inputs CudaBackend::hidden_inputs(const Matrix& gate, const Matrix& up, const Matrix& down,
                                  const Weight& norm, float eps, TensorView x) {
  const Way way = gate.packed().way();
  const Way to = down.packed().way();
  const SummedRows rows = summed_rows_of(x);
  const float* norm_values = vector_of(&norm, x.n_cols);
  Inputs hidden;
  place_input(hidden_, to, x.n_rows, gate.n_rows(), hidden);
  const bool inside =
      way == Way::int8 ? gates_inside_int8(gate.packed(), up.packed())
                       : to == Way::f16 && gates_inside(gate.packed(), up.packed(), gemm_device_);
  if (inside) {
    Inputs inputs;
    place_input(input_, way, x.n_rows, x.n_cols, inputs);
    inputs.int8.step_cols = kGatedStepCols;
    const double lengths =
        static_cast<double>(gate.packed().length) * static_cast<double>(up.packed().length);
    launch_prepare(rows, norm_values, eps, inputs, stream_.get(), {hidden.f16.row_scale, lengths});
    if (way == Way::f16) {
      launch_gated(gate.packed(), up.packed(), inputs.f16, hidden.f16, gemm_device_, stream_.get());
    } else if (to == Way::f16) {
      launch_gated_int8(gate.packed(), up.packed(), inputs.int8, hidden.f16, gemm_device_,
                        stream_.get());
    } else {
      launch_gated_int8(gate.packed(), up.packed(), inputs.int8, hidden.int8,
                        hidden_rows(gate_, x.n_rows, gate.n_rows()), gemm_device_, stream_.get());
    }
    return hidden;
  }
  const Rows gates = hidden_rows(gate_, x.n_rows, gate.n_rows());
  const Rows ups = hidden_rows(up_, x.n_rows, gate.n_rows());
  const Product gate_and_up[] = {{gate.packed(), {gates.values, gates.n_cols}},
                                 {up.packed(), {ups.values, ups.n_cols}}};
  multiply(gate_and_up, inputs_for(gate_and_up, rows, norm_values, eps), false);
  launch_swiglu(gates, ups, hidden, stream_.get());
  return hidden;
}

void CudaBackend::copy_rows(TensorView src, const IndexList& rows, TensorView dst) {
  DLLM_ASSERT(src.buffer != dst.buffer && src.n_cols == dst.n_cols && dst.n_rows == rows.size());
  if (dst.n_rows == 0) return;
  const EventTimer timer(profile_, Stage::other, "copy_rows", stream_.get());
  launch_copy_rows(rows_of(src), values_of(rows), new_rows_of(dst), stream_.get());
}

void CudaBackend::run_step(const StepKey& key, const std::function<void()>& body) {
  const auto step = [&] {
    sums_.begin_step();
    rotations_.begin_step();
    try {
      body();
      sums_.end_step();
      rotations_.end_step(stream_.get());
    } catch (...) {
      sums_.abandon_step();
      rotations_.abandon_step();
      prepared_ = {};
      throw;
    }
  };
  prepared_ = {};  // a step that is replayed does not find what the one before it left
  if (profile_.active()) {
    step();
  } else {
    graphs_.run(stream_.get(), key, *long_lists_ == 0, step);
  }
  prepared_ = {};
}

}  // namespace dllm::cuda
