#include "conformance.hpp"

#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace dllm::test {
namespace {

std::uint16_t random_half(std::mt19937_64& random, int low_exponent, int high_exponent) {
  const auto exponent = std::uniform_int_distribution<int>(low_exponent, high_exponent)(random);
  return static_cast<std::uint16_t>((random() & 0x83FF) | static_cast<unsigned>(exponent) << 10);
}

// Byte offsets of the binary16 fields of a block.
std::vector<std::size_t> half_fields(DType dtype) {
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    default:
      return {0};
  }
}

Rows decode(DType dtype, const std::vector<std::byte>& bytes, std::uint32_t n_rows,
            std::uint32_t n_cols) {
  Rows rows;
  const std::size_t stride = row_bytes(dtype, n_cols);
  std::vector<float> row(n_cols);
  for (std::uint32_t r = 0; r < n_rows; ++r) {
    decode_row(dtype, std::span(bytes).subspan(r * stride, stride), row);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

bool runs_here(const std::string& isa) {
  try {
    make_backend({isa});
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_usage) throw;
    return false;  // this machine lacks it
  }
}

// Size of the values [begin, begin + n): the largest and the sum.
struct Sizes {
  double largest = 0;
  double sum = 0;
};
Sizes sizes_of(const std::vector<double>& row, std::size_t begin, std::size_t n) {
  Sizes sizes;
  for (std::size_t i = begin; i < std::min(begin + n, row.size()); ++i) {
    sizes.largest = std::max(sizes.largest, std::abs(row[i]));
    sizes.sum += std::abs(row[i]);
  }
  return sizes;
}

double step_of(const std::vector<double>& row, std::size_t at, std::size_t group = 32) {
  return sizes_of(row, at / group * group, group).largest / 127;
}

// 127 steps reach the largest of 32 values, and the codes of 16 sum to at most 1,023, of which nine
// are left for rounding.
double least_shared_step(const std::vector<double>& row, std::size_t begin) {
  return std::max({sizes_of(row, begin, 32).largest / 127, sizes_of(row, begin, 16).sum / 1014,
                   sizes_of(row, begin + 16, 16).sum / 1014});
}

double shared_step_of(const std::vector<double>& row, std::size_t begin) {
  const std::size_t block = begin / 256 * 256;
  double widest = 0;
  for (std::size_t g = block; g < block + 256; g += 32)
    widest = std::max(widest, least_shared_step(row, g));
  const double unit = widest / 64;
  return unit == 0 ? 0 : std::min(std::ceil(least_shared_step(row, begin) / unit), 64.0) * unit;
}

// The step of every value of a row.
std::vector<double> steps_in(const std::vector<double>& row, Steps steps) {
  std::vector<double> out(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t begin = i / 32 * 32;
    out[i] = i != begin               ? out[begin]
             : steps == Steps::shared ? shared_step_of(row, begin)
                                      : step_of(row, begin) / (steps == Steps::fine ? 254 : 1);
  }
  return out;
}

Rows scaled(Rows rows, double factor) {
  for (auto& row : rows)
    for (double& value : row) value *= factor;
  return rows;
}

}  // namespace

const BackendFactory& cpu_factory() {
  static const auto* registry = [] {
    static const Log log;                  // the registry keeps a reference
    auto* made = new PluginRegistry(log);  // plugins stay loaded until the process ends
    const std::array<std::filesystem::path, 1> folders = {DLLM_TEST_PLUGINS};
    made->scan(folders);
    return made;
  }();
  return *registry->require(PluginKind::backend, "cpu").backend;
}

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (const OptionInfo& option : cpu_factory().options()) {
    if (option.name != "isa") continue;
    for (const std::string& choice : option.choices) {
      if (choice == "auto") continue;
      if (runs_here(choice)) names.push_back(choice);
    }
  }
  return names;
}

bool has_fast_products(const std::string& isa) {
  return isa == "avxvnni" || isa == "avx512vnni" || isa == "amx";
}

bool is_k_type(DType dtype) {
  return dtype == DType::q2_k || dtype == DType::q3_k || dtype == DType::q4_k ||
         dtype == DType::q5_k || dtype == DType::q6_k;
}

std::unique_ptr<Backend> make_backend(const RunSetup& setup) {
  // This program is the host application: it lets oneTBB have more threads than the machine may
  // have processors, so that tests of 3 or 7 threads are what they say everywhere.
  static const tbb::global_control eight_threads(tbb::global_control::max_allowed_parallelism, 8);
  return cpu_factory().create(check_options(cpu_factory().options(),
                                            {{"isa", setup.isa},
                                             {"products", setup.products},
                                             {"threads", std::to_string(setup.threads)}},
                                            "backend cpu"),
                              Log());
}

std::vector<DType> code_dtypes() {
  return {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,   DType::q2_k,
          DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};
}

std::vector<DType> float_dtypes() { return {DType::f32, DType::f16, DType::bf16}; }

std::vector<std::byte> random_blocks(DType dtype, std::uint32_t n_rows, std::uint32_t n_cols,
                                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(n_rows * row_bytes(dtype, n_cols));
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  if (dtype == DType::f32) {
    const std::vector<float> values = random_floats(std::size_t{n_rows} * n_cols, seed, 0.1F);
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else if (dtype == DType::f16) {
    for (std::size_t i = 0; i < bytes.size(); i += 2) put(i, random_half(random, 6, 12));
  } else if (dtype == DType::bf16) {
    for (std::size_t i = 0; i < bytes.size(); i += 2)
      put(i, static_cast<std::uint16_t>((random() & 0x807F) | (118 + random() % 6) << 7));
  } else {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
    for (std::size_t block = 0; block < bytes.size(); block += dtype_info(dtype).block_bytes)
      for (const std::size_t field : half_fields(dtype))
        put(block + field, random_half(random, 4, 7));
  }
  return bytes;
}

std::vector<float> random_floats(std::size_t n, std::uint64_t seed, float scale) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(random);
  return values;
}

void WeightFile::add(const std::string& name, DType dtype, std::uint32_t n_rows,
                     std::uint32_t n_cols, std::uint64_t seed) {
  add_blocks(name, dtype, n_rows, n_cols, random_blocks(dtype, n_rows, n_cols, seed));
}

void WeightFile::add_blocks(const std::string& name, DType dtype, std::uint32_t n_rows,
                            std::uint32_t n_cols, const std::vector<std::byte>& bytes) {
  writer_.add_tensor(name, dtype, {n_cols, n_rows}, bytes);
  decoded_[name] = decode(dtype, bytes, n_rows, n_cols);
}

void WeightFile::add_vector(const std::string& name, const std::vector<float>& values) {
  writer_.add_tensor(name, DType::f32, {values.size()}, values);
  decoded_[name] = {{values.begin(), values.end()}};
}

void WeightFile::add_matrix(const std::string& name, const Rows& rows) {
  std::vector<float> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  writer_.add_tensor(name, DType::f32, {rows.at(0).size(), rows.size()}, flat);
  decoded_[name] = rows;
}

std::shared_ptr<const GgufFile> WeightFile::file() {
  if (!file_) {
    writer_.write(folder_.path() / "weights.gguf");
    file_ = GgufFile::open(folder_.path() / "weights.gguf");
  }
  return file_;
}

std::unique_ptr<Weight> WeightFile::import_to(Backend& backend, const std::string& name,
                                              WeightRole role) {
  return backend.import_weight(file(), file()->tensor(name), role);
}

std::unique_ptr<Buffer> make_filled(Backend& backend, const std::vector<float>& values,
                                    std::uint32_t n_cols) {
  const auto n_rows = static_cast<std::uint32_t>(values.size() / n_cols);
  auto buffer = backend.make_buffer(n_rows, n_cols);
  WeightFile file;
  file.add_matrix("rows", to_rows(values, n_cols));
  const auto table = file.import_to(backend, "rows", WeightRole::embedding);
  const auto ids = backend.make_index_list(n_rows);
  std::vector<std::int32_t> all(n_rows);
  for (std::uint32_t r = 0; r < n_rows; ++r) all[r] = static_cast<std::int32_t>(r);
  ids->write(all);
  backend.embed(*table, *ids, buffer->rows(n_rows));
  return buffer;
}

// With eps = 2^100 the norm divides by exactly 2^50 and the norm weight multiplies it back, so the
// identity matrix returns every value as it is (-0 as 0, since zeros are added to it).
std::vector<float> read(Backend& backend, TensorView view) {
  WeightFile file;
  Rows identity(view.n_cols, std::vector<double>(view.n_cols, 0.0));
  for (std::uint32_t i = 0; i < view.n_cols; ++i) identity[i][i] = 1;
  file.add_matrix("identity", identity);
  file.add_vector("norm", std::vector<float>(view.n_cols, std::ldexp(1.0F, 50)));
  const auto matrix = file.import_to(backend, "identity");
  const auto norm = file.import_to(backend, "norm", WeightRole::replicated);
  std::vector<float> out(std::size_t{view.n_rows} * view.n_cols);
  backend.logits(view, *norm, std::ldexp(1.0F, 100), *matrix, out);
  return out;
}

Rows to_rows(const std::vector<float>& values, std::uint32_t n_cols) {
  Rows rows;
  for (std::size_t at = 0; at < values.size(); at += n_cols)
    rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                      values.begin() + static_cast<std::ptrdiff_t>(at + n_cols));
  return rows;
}

void expect_near(const std::vector<float>& got, const Rows& want, const Rows& tolerance) {
  const std::size_t n_cols = want.at(0).size();
  ASSERT_EQ(got.size(), want.size() * n_cols);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = want[i / n_cols][i % n_cols];
    const double allowed = tolerance[i / n_cols][i % n_cols];
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - expected), allowed)
        << "row " << i / n_cols << " column " << i % n_cols << ": got " << got[i] << ", want "
        << expected;
  }
}

void expect_same(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << "element " << i << ": got " << got[i] << ", want " << want[i];
}

Steps steps_of(const RunSetup& setup, DType weights) {
  const bool has_integer_scales = weights == DType::q3_k || weights == DType::q4_k ||
                                  weights == DType::q5_k || weights == DType::q6_k;
  const bool wide = setup.isa == "avx512vnni" || setup.isa == "amx";
  if (wide && has_integer_scales) return Steps::shared;
  const bool small_blocks = dtype_info(weights).block_size == 32;
  return setup.products == "exact" && small_blocks ? Steps::fine : Steps::free;
}

Rows int8_rounded(const Rows& x, Steps steps) {
  Rows out = x;
  for (auto& row : out) {
    const std::vector<double> step = steps_in(row, steps);
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = step[i] == 0 ? 0 : std::nearbyint(row[i] / step[i]) * step[i];
  }
  return out;
}

Rows int8_tolerance(const Rows& weights, const Rows& x, Steps steps) {
  Rows half_steps;
  for (const auto& row : x) half_steps.push_back(steps_in(row, steps));
  Rows out = oracle_linear_magnitude(weights, scaled(half_steps, 0.5));
  const Rows rounding = f32_tolerance(weights, x);
  for (std::size_t r = 0; r < out.size(); ++r)
    for (std::size_t o = 0; o < out[r].size(); ++o) out[r][o] += rounding[r][o];
  return out;
}

Rows fast_tolerance(const Rows& weights, const Rows& x) {
  constexpr double kUnseen = 1.25;     // largest possible weight over the largest there
  constexpr double kFixedPoint = 1.3;  // 6-bit codes: an eighth of a step for S, a little for M
  const auto steps = [](const Rows& rows, double factor) {
    Rows out = rows;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t i = 0; i < rows[r].size(); ++i)
        out[r][i] = factor * step_of(rows[r], i, 256);
    return out;
  };
  Rows out = f32_tolerance(weights, x);
  const Rows weight_steps = steps(weights, 0.5 * kUnseen * kFixedPoint);
  const Rows input_steps = steps(x, 0.5);
  const Rows of_inputs = oracle_linear_magnitude(weights, input_steps);
  const Rows of_weights = oracle_linear_magnitude(weight_steps, x);
  const Rows of_both = oracle_linear_magnitude(weight_steps, input_steps);
  for (std::size_t r = 0; r < out.size(); ++r)
    for (std::size_t o = 0; o < out[r].size(); ++o)
      out[r][o] += of_inputs[r][o] + of_weights[r][o] + of_both[r][o];
  return out;
}

Rows int8_exact_tolerance(const Rows& weights, const Rows& x, Steps steps) {
  Rows out = f32_tolerance(weights, x);
  for (std::size_t r = 0; r < out.size(); ++r) {
    const std::vector<double> step = steps_in(x[r], steps);
    for (std::size_t o = 0; o < out[r].size(); ++o) {
      double largest = 0;
      for (std::size_t i = 0; i < x[r].size(); ++i)
        largest = std::max(largest, std::abs(weights[o][i]) * step[i]);
      out[r][o] += 2 * largest;
    }
  }
  return out;
}

Rows brain_tolerance(const Rows& weights, const Rows& x) {
  const double roundings = static_cast<double>(x.at(0).size()) + 8;
  return scaled(oracle_linear_magnitude(weights, x),
                std::ldexp(1.0, -9) + roundings * std::ldexp(1.0, -24) * 4);
}

Rows f32_tolerance(const Rows& weights, const Rows& x) {
  const double roundings = static_cast<double>(x.at(0).size()) + 8;
  // Codes with a minimum add a second term per weight of up to a few times its size.
  return scaled(oracle_linear_magnitude(weights, x), roundings * std::ldexp(1.0, -24) * 4);
}

}  // namespace dllm::test
