#include "cuda_support.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace dllm::test {

std::string plugin_folder() {
  const char* named = std::getenv("DLLM_TEST_PLUGINS");
  return named ? named : DLLM_TEST_PLUGINS;
}

const BackendFactory* cuda_factory() {
  static const BackendFactory* const factory = []() -> const BackendFactory* {
    static const Log log;                  // the registry keeps a reference
    auto* made = new PluginRegistry(log);  // plugins stay loaded until the process ends
    const std::array<std::filesystem::path, 1> folders = {plugin_folder()};
    made->scan(folders);
    const PluginRecord* record = made->find(PluginKind::backend, "cuda");
    return record && record->accepted ? record->backend : nullptr;
  }();
  return factory;
}

std::unique_ptr<Backend> make_cuda(std::map<std::string, std::string, std::less<>> options) {
  if (!cuda_factory())
    throw std::runtime_error("no backend_cuda.so was accepted in " + plugin_folder());
  options.emplace("products", "f16");
  return cuda_factory()->create(check_options(cuda_factory()->options(), options, "backend cuda"),
                                Log());
}

std::unique_ptr<Backend> make_products(const std::string& products) {
  try {
    return make_cuda({{"products", products}});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.fact().find("products=" + products + " needs compute capability 9.0"), 0)
        << error.what();
    return nullptr;
  }
}

std::vector<float> read_closely(Backend& backend, TensorView view) {
  const std::uint32_t n = view.n_rows;
  const auto rest = backend.make_buffer(n, view.n_cols);
  const auto rows = backend.make_index_list(n);
  std::vector<std::int32_t> all(n);
  for (std::uint32_t r = 0; r < n; ++r) all[r] = static_cast<std::int32_t>(r);
  rows->write(all);
  backend.copy_rows(view, *rows, rest->rows(n));
  WeightFile file;
  Rows minus(view.n_cols, std::vector<double>(view.n_cols, 0.0));
  for (std::uint32_t i = 0; i < view.n_cols; ++i) minus[i][i] = -1;
  file.add_matrix("minus", minus);
  const auto matrix = file.import_to(backend, "minus");
  std::vector<float> total(std::size_t{n} * view.n_cols, 0.0F);
  for (int pass = 0; pass < 3; ++pass) {
    const std::vector<float> leading = read(backend, rest->rows(n));
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += leading[i];
    if (std::any_of(leading.begin(), leading.end(), [](float v) { return !std::isfinite(v); }))
      return total;
    const auto part = make_filled(backend, leading, view.n_cols);
    backend.linear_residual(part->rows(n), *matrix, nullptr, rest->rows(n));
  }
  return total;
}

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = {
      {"cuda", [] { return make_cuda(); }, read_closely, 1e-7, true}};
  return all;
}

std::vector<Subject> attention_subjects() { return subjects(); }

// A plugin that was not accepted is no reason: its own tests fail, and so do these.
std::string no_subjects_reason() {
  return cuda_factory() == nullptr ? "" : cuda_factory()->probe().reason;
}

void CudaTest::SetUp() {
  SubjectsTest::SetUp();
  if (IsSkipped()) return;
  ASSERT_NE(cuda_factory(), nullptr) << "the plugin was not accepted";
  backend_ = make_cuda();
}

std::vector<DType> all_types() {
  std::vector<DType> types = code_dtypes();
  for (const DType type : float_dtypes()) types.push_back(type);
  return types;
}

std::string type_name(const testing::TestParamInfo<DType>& info) {
  return std::string(dtype_name(info.param));
}

FeedForward::FeedForward(Backend& backend, DType type, std::uint32_t width, std::uint32_t n_ffn)
    : backend_(&backend), width_(width) {
  file_.add("gate", type, n_ffn, width, 1);
  file_.add("up", type, n_ffn, width, 2);
  file_.add("down", type, width, n_ffn, 3);
  import();
}

FeedForward::FeedForward(Backend& backend, std::uint32_t width,
                         const std::function<void(WeightFile&)>& add)
    : backend_(&backend), width_(width) {
  add(file_);
  import();
}

FeedForward::FeedForward(Backend& backend, const Rows& gate, const Rows& up, const Rows& down)
    : backend_(&backend), width_(static_cast<std::uint32_t>(down.size())) {
  file_.add_matrix("gate", gate);
  file_.add_matrix("up", up);
  file_.add_matrix("down", down);
  import();
}

void FeedForward::import() {
  file_.add_vector("norm", random_floats(width_, 4, 1));
  gate = file_.import_to(*backend_, "gate");
  up = file_.import_to(*backend_, "up");
  down = file_.import_to(*backend_, "down", WeightRole::row_split);
  norm = file_.import_to(*backend_, "norm", WeightRole::replicated);
}

void FeedForward::run(TensorView x) const {
  backend_->gated_mlp(x, *norm, kEps, *gate, *up, *down);
}

std::vector<float> FeedForward::added(const std::vector<float>& rows) const {
  const auto n_rows = static_cast<std::uint32_t>(rows.size() / width_);
  const auto x = make_filled(*backend_, rows, width_);
  run(x->rows(n_rows));
  std::vector<float> got = read_closely(*backend_, x->rows(n_rows));
  for (std::size_t i = 0; i < got.size(); ++i) got[i] -= rows[i];
  return got;
}

Rows FeedForward::oracle_normed(const std::vector<float>& rows) const {
  return oracle_norm(to_rows(rows, width_), file_.vector("norm"), static_cast<double>(kEps));
}

Rows FeedForward::oracle_added(const std::vector<float>& rows) const {
  return oracle_linear(down_values(),
                       oracle_gated(gate_values(), up_values(), oracle_normed(rows)));
}

void expect_what_is_not_finite_to_show(
    Backend& backend, std::uint32_t width,
    const std::function<FeedForward(std::optional<float> bad)>& layer) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool in_weight : {false, true}) {
      const FeedForward made = layer(in_weight ? std::optional(bad) : std::nullopt);
      auto values = random_floats(std::size_t{2} * width, 5);
      if (!in_weight) values[width + 70] = bad;
      const auto x = make_filled(backend, values, width);
      made.run(x->rows(2));
      const auto got = read(backend, x->rows(2));
      for (std::size_t i = 0; i < width; ++i) {
        EXPECT_EQ(std::isfinite(got[i]), !in_weight);
        EXPECT_FALSE(std::isfinite(got[width + i]));
      }
    }
  }
}

Rows rounded_to_int8(Rows rows, std::size_t group) {
  for (auto& row : rows)
    for (std::size_t begin = 0; begin < row.size(); begin += group) {
      const std::size_t end = std::min(begin + group, row.size());
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i)
        largest = std::max(largest, std::abs(static_cast<float>(row[i])));
      const float inverse = largest > 0 ? 127 / largest : 0;
      const double step = static_cast<double>(largest) / 127;
      for (std::size_t i = begin; i < end; ++i)
        row[i] = static_cast<double>(std::nearbyint(static_cast<float>(row[i]) * inverse)) * step;
    }
  return rows;
}

double relative_error(const std::vector<float>& got, const Rows& want) {
  double error = 0;
  double size = 0;
  const std::size_t n_cols = want.at(0).size();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = want[i / n_cols][i % n_cols];
    error += (static_cast<double>(got[i]) - expected) * (static_cast<double>(got[i]) - expected);
    size += expected * expected;
  }
  return std::sqrt(error / size);
}

Rows half_tolerance(const Rows& weights, const Rows& x) {
  Rows largest = weights;
  for (auto& row : largest)
    for (std::size_t begin = 0; begin < row.size(); begin += 256) {
      const std::size_t end = std::min(begin + 256, row.size());
      double most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(row[i]));
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(begin),
                row.begin() + static_cast<std::ptrdiff_t>(end), most);
    }
  Rows out = oracle_linear_magnitude(largest, x);
  for (auto& row : out)
    for (double& value : row) value = value * 4 * std::ldexp(1.0, -11) + 1e-6;
  return out;
}

}  // namespace dllm::test
