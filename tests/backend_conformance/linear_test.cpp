// norm_linear, linear_residual and gated_mlp against the oracle, for every weight type, instruction
// set and shape, and their independence of batch and threads.
#include <functional>

#include "conformance.hpp"

namespace dllm::test {
namespace {

constexpr float kEps = 1e-5F;

struct Shape {
  std::uint32_t n_rows;
  std::uint32_t n_in;
  std::uint32_t n_out;
};

// Row counts around the kernels' blocks, inputs of several and partial blocks, outputs around a
// tile.
std::vector<Shape> shapes_for(DType dtype) {
  switch (dtype_info(dtype).block_size) {
    case 1:
      return {{1, 33, 5}, {3, 100, 32}, {7, 256, 33}, {33, 320, 70}};
    case 32:
      return {{1, 32, 5}, {3, 96, 32}, {7, 288, 33}, {33, 544, 70}};
    default:
      return {{1, 256, 5}, {3, 512, 32}, {7, 256, 33}, {33, 768, 70}};
  }
}

std::vector<RunSetup> all_setups() {
  std::vector<RunSetup> setups;
  for (const std::string& isa : usable_isas()) {
    setups.push_back({isa, "exact"});
    setups.push_back({isa, "f32"});
    setups.push_back({isa, "fast"});
  }
  return setups;
}

bool in_integers(const RunSetup& setup, DType dtype) {
  return setup.products != "f32" && dtype_info(dtype).block_size > 1;
}

bool is_fast(const RunSetup& setup, DType dtype) {
  return setup.products == "fast" && has_fast_products(setup.isa) && is_k_type(dtype) &&
         dtype != DType::q5_k;  // exact anyway: docs/accuracy.md
}

std::function<Rows(const Rows&, const Rows&)> tolerance_of(const RunSetup& setup, DType dtype) {
  if (is_fast(setup, dtype)) return fast_tolerance;
  if (setup.products == "fast" && dtype == DType::bf16) return brain_tolerance;
  if (!in_integers(setup, dtype)) return f32_tolerance;
  return [steps = steps_of(setup, dtype)](const Rows& weights, const Rows& x) {
    return int8_tolerance(weights, x, steps);
  };
}

class LinearOps : public testing::TestWithParam<DType> {};

std::string type_name(const testing::TestParamInfo<DType>& info) {
  return std::string(dtype_name(info.param));
}

std::vector<DType> all_types() {
  std::vector<DType> types = code_dtypes();
  for (const DType type : float_dtypes()) types.push_back(type);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, LinearOps, testing::ValuesIn(all_types()), type_name);

TEST_P(LinearOps, NormLinearAgreesWithOracle) {
  const DType dtype = GetParam();
  for (const Shape& shape : shapes_for(dtype)) {
    WeightFile file;
    file.add("a", dtype, shape.n_out, shape.n_in, 1);
    file.add("b", dtype, shape.n_out + 3, shape.n_in, 2);
    file.add_vector("bias", random_floats(shape.n_out, 3));
    file.add_vector("norm", random_floats(shape.n_in, 4, 2));
    const auto values = random_floats(std::size_t{shape.n_rows} * shape.n_in, 5, 3);
    const Rows normed =
        oracle_norm(to_rows(values, shape.n_in), file.vector("norm"), static_cast<double>(kEps));
    for (const RunSetup& setup : all_setups()) {
      SCOPED_TRACE(setup.name() + " rows " + std::to_string(shape.n_rows));
      auto backend = make_backend(setup);
      const auto a = file.import_to(*backend, "a");
      const auto b = file.import_to(*backend, "b");
      const auto bias = file.import_to(*backend, "bias", WeightRole::replicated);
      const auto norm = file.import_to(*backend, "norm", WeightRole::replicated);
      const auto x = make_filled(*backend, values, shape.n_in);
      const auto out_a = backend->make_buffer(shape.n_rows, shape.n_out);
      const auto out_b = backend->make_buffer(shape.n_rows, shape.n_out + 3);
      const std::vector<Projection> projections = {{a.get(), bias.get(), out_a->rows(shape.n_rows)},
                                                   {b.get(), nullptr, out_b->rows(shape.n_rows)}};
      backend->norm_linear(x->rows(shape.n_rows), norm.get(), kEps, projections);
      const auto got_a = read(*backend, out_a->rows(shape.n_rows));
      const auto got_b = read(*backend, out_b->rows(shape.n_rows));
      const bool integers = in_integers(setup, dtype);
      const auto tolerance = tolerance_of(setup, dtype);
      expect_near(got_a, oracle_linear(file.decoded("a"), normed, file.vector("bias")),
                  tolerance(file.decoded("a"), normed));
      expect_near(got_b, oracle_linear(file.decoded("b"), normed),
                  tolerance(file.decoded("b"), normed));
      const Steps steps = steps_of(setup, dtype);
      if (!integers || is_fast(setup, dtype) || steps == Steps::fine) continue;
      expect_near(got_b, oracle_linear(file.decoded("b"), int8_rounded(normed, steps)),
                  int8_exact_tolerance(file.decoded("b"), normed, steps));
    }
  }
}

TEST_P(LinearOps, LinearResidualAddsToWhatIsThere) {
  const DType dtype = GetParam();
  for (const Shape& shape : shapes_for(dtype)) {
    WeightFile file;
    file.add("w", dtype, shape.n_out, shape.n_in, 1);
    file.add_vector("bias", random_floats(shape.n_out, 3));
    const auto values = random_floats(std::size_t{shape.n_rows} * shape.n_in, 5, 3);
    const auto before = random_floats(std::size_t{shape.n_rows} * shape.n_out, 6);
    const Rows x_rows = to_rows(values, shape.n_in);
    Rows want = oracle_linear(file.decoded("w"), x_rows, file.vector("bias"));
    for (std::size_t i = 0; i < before.size(); ++i)
      want[i / shape.n_out][i % shape.n_out] += static_cast<double>(before[i]);
    for (const RunSetup& setup : all_setups()) {
      SCOPED_TRACE(setup.name());
      auto backend = make_backend(setup);
      const auto w = file.import_to(*backend, "w", WeightRole::row_split);
      const auto bias = file.import_to(*backend, "bias", WeightRole::replicated);
      const auto x = make_filled(*backend, values, shape.n_in);
      const auto residual = make_filled(*backend, before, shape.n_out);
      backend->linear_residual(x->rows(shape.n_rows), *w, bias.get(), residual->rows(shape.n_rows));
      expect_near(read(*backend, residual->rows(shape.n_rows)), want,
                  tolerance_of(setup, dtype)(file.decoded("w"), x_rows));
    }
  }
}

TEST_P(LinearOps, GatedMlpAgreesWithOracleOnExactActivations) {
  const DType dtype = GetParam();
  const std::uint32_t block = dtype_info(dtype).block_size;
  const std::uint32_t width = block == 1 ? 50 : block == 32 ? 96 : 256;
  const std::uint32_t ffn = 2 * width;
  WeightFile file;
  file.add("gate", dtype, ffn, width, 1);
  file.add("up", dtype, ffn, width, 2);
  file.add("down", dtype, width, ffn, 3);
  file.add_vector("norm", random_floats(width, 4, 1));
  const auto values = random_floats(std::size_t{5} * width, 5, 3);
  const Rows x_rows = to_rows(values, width);
  const Rows normed = oracle_norm(x_rows, file.vector("norm"), static_cast<double>(kEps));
  const Rows hidden = oracle_gated(file.decoded("gate"), file.decoded("up"), normed);
  Rows want = oracle_linear(file.decoded("down"), hidden);
  const Rows magnitude = oracle_linear_magnitude(file.decoded("down"), hidden);
  for (const RunSetup& setup : all_setups()) {
    SCOPED_TRACE(setup.name());
    auto backend = make_backend(setup);
    const auto gate = file.import_to(*backend, "gate");
    const auto up = file.import_to(*backend, "up");
    const auto down = file.import_to(*backend, "down", WeightRole::row_split);
    const auto norm = file.import_to(*backend, "norm", WeightRole::replicated);
    const auto x = make_filled(*backend, values, width);
    backend->gated_mlp(x->rows(5), *norm, kEps, *gate, *up, *down);
    Rows tolerance = magnitude;
    Rows sum = want;
    // f32: gate and up carry roundings of their own sums, so twice the plain bound at most a few
    // hundred units. int8: three quantisations of at most 1/254 of a group's largest value, in
    // fast products six of a larger one.
    // BF16: three roundings of 2^-9.
    const bool brains = setup.products == "fast" && dtype == DType::bf16;
    const double relative = in_integers(setup, dtype) ? 0.05 : brains ? 0.01 : 3e-5;
    for (std::size_t r = 0; r < sum.size(); ++r) {
      double largest = 0;
      for (const double value : magnitude[r]) largest = std::max(largest, value);
      for (std::size_t i = 0; i < sum[r].size(); ++i) {
        sum[r][i] += x_rows[r][i];
        tolerance[r][i] = relative * largest;
      }
    }
    expect_near(read(*backend, x->rows(5)), sum, tolerance);
  }
}

TEST_P(LinearOps, RowsAreTheSameAloneAndInCompanyAndForAnyThreads) {
  const DType dtype = GetParam();
  const std::uint32_t width = dtype_info(dtype).block_size == 256 ? 256 : 96;
  constexpr std::uint32_t kRows = 13;
  WeightFile file;
  file.add("gate", dtype, 2 * width, width, 1);
  file.add("up", dtype, 2 * width, width, 2);
  file.add("down", dtype, width, 2 * width, 3);
  file.add_vector("norm", random_floats(width, 4, 1));
  const auto values = random_floats(std::size_t{kRows} * width, 5, 3);
  for (RunSetup setup : all_setups()) {
    std::vector<float> first;
    for (const int threads : {1, 7}) {
      setup.threads = threads;
      SCOPED_TRACE(setup.name());
      auto backend = make_backend(setup);
      const auto gate = file.import_to(*backend, "gate");
      const auto up = file.import_to(*backend, "up");
      const auto down = file.import_to(*backend, "down");
      const auto norm = file.import_to(*backend, "norm", WeightRole::replicated);
      const auto run = [&](const std::vector<float>& rows) {
        const auto n = static_cast<std::uint32_t>(rows.size() / width);
        const auto x = make_filled(*backend, rows, width);
        const auto projected = backend->make_buffer(n, 2 * width);
        const std::vector<Projection> projections = {{gate.get(), nullptr, projected->rows(n)}};
        backend->gated_mlp(x->rows(n), *norm, kEps, *gate, *up, *down);
        backend->norm_linear(x->rows(n), norm.get(), kEps, projections);
        backend->linear_residual(projected->rows(n), *down, nullptr, x->rows(n));
        return read(*backend, x->rows(n));
      };
      const std::vector<float> together = run(values);
      if (first.empty()) first = together;
      expect_same(together, first);
      for (const std::uint32_t r : {0U, 6U, 12U}) {
        SCOPED_TRACE("row " + std::to_string(r));
        const auto begin = std::ptrdiff_t{r} * width;
        expect_same(run({values.begin() + begin, values.begin() + begin + width}),
                    {together.begin() + begin, together.begin() + begin + width});
      }
    }
  }
}

TEST(LinearOpsFaults, AnActivationThatIsNotFiniteReachesTheResult) {
  for (const RunSetup& setup : all_setups()) {
    SCOPED_TRACE(setup.name());
    auto backend = make_backend(setup);
    WeightFile file;
    const DType dtype = setup.products == "fast" ? DType::q4_k : DType::q4_0;
    const std::uint32_t width = dtype_info(dtype).block_size == 256 ? 256 : 64;
    file.add("w", dtype, 32, width, 1);
    const auto w = file.import_to(*backend, "w");
    auto values = random_floats(2 * width, 5);
    values[width + 6] = std::numeric_limits<float>::infinity();
    const auto x = make_filled(*backend, values, width);
    const auto out = make_filled(*backend, std::vector<float>(64, 0.0F), 32);
    backend->linear_residual(x->rows(2), *w, nullptr, out->rows(2));
    const auto got = read(*backend, out->rows(1));
    for (const float value : got) EXPECT_TRUE(std::isfinite(value));
    // The second row is all NaN or infinite; as an input it must not become finite again.
    const auto rows = backend->make_index_list(1);
    rows->write(std::vector<std::int32_t>{1});
    const auto second = backend->make_buffer(1, 32);
    backend->copy_rows(out->rows(2), *rows, second->rows(1));
    for (const float value : read(*backend, second->rows(1))) EXPECT_FALSE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace dllm::test
