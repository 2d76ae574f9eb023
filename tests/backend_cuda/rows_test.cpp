// embed, copy_rows and rope.
#include "cuda_support.hpp"

namespace dllm::test {
namespace {

class CudaRows : public CudaTest {};

TEST_F(CudaRows, EmbeddingRowsEqualTheDecodedTable) {
  std::vector<DType> types = code_dtypes();
  for (const DType type : float_dtypes()) types.push_back(type);
  for (const DType dtype : types) {
    SCOPED_TRACE(dtype_name(dtype));
    WeightFile file;
    file.add("table", dtype, 11, 256, 1);
    const auto table = file.import_to(backend(), "table", WeightRole::embedding);
    const auto ids = backend().make_index_list(4);
    ids->write(std::vector<std::int32_t>{10, 0, 3, 3});
    const auto out = backend().make_buffer(4, 256);
    backend().embed(*table, *ids, out->rows(4));
    const auto got = read(out->rows(4));
    Rows want;
    for (const std::size_t id : {10, 0, 3, 3}) want.push_back(file.decoded("table")[id]);
    Rows tolerance = want;  // reading back leaves 2^-30 of a row's largest value
    for (auto& row : tolerance) {
      double largest = 0;
      for (const double value : row) largest = std::max(largest, std::abs(value));
      std::fill(row.begin(), row.end(), largest * 1e-7);
    }
    expect_near(got, want, tolerance);
  }
}

TEST_F(CudaRows, CopyPicksRowsInTheGivenOrder) {
  const auto values = random_floats(5 * 7, 1);
  const auto source = fill(values, 7);
  const auto rows = backend().make_index_list(3);
  rows->write(std::vector<std::int32_t>{4, 0, 4});
  const auto out = backend().make_buffer(3, 7);
  backend().copy_rows(source->rows(5), *rows, out->rows(3));
  Rows want;
  for (const std::ptrdiff_t r : {4, 0, 4})
    want.emplace_back(values.begin() + r * 7, values.begin() + (r + 1) * 7);
  expect_near(read(out->rows(3)), want, Rows(3, std::vector<double>(7, 1e-7)));
}

struct RopeCase {
  RopeKind kind;
  std::uint32_t head_dim;
  std::uint32_t n_rot;
  double theta;
  double scale;
  bool head_norm;
};

TEST_F(CudaRows, RopeAgreesWithOracleForBothKindsPartialRotationAndHeadNorm) {
  const std::vector<RopeCase> all = {{RopeKind::norm, 64, 64, 500000, 1, false},
                                     {RopeKind::neox, 128, 128, 1000000, 1, false},
                                     {RopeKind::neox, 64, 32, 10000, 0.25, false},
                                     {RopeKind::norm, 24, 10, 10000, 1, true},
                                     {RopeKind::neox, 20, 20, 10000, 1, true}};
  for (const RopeCase& c : all) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    constexpr std::uint32_t kRows = 9;
    const std::uint32_t width = 3 * c.head_dim;
    WeightFile file;
    file.add_vector("head_norm", random_floats(c.head_dim, 4, 2));
    const auto norm = file.import_to(backend(), "head_norm", WeightRole::replicated);
    RopeParams params;
    params.kind = c.kind;
    params.n_heads = 3;
    params.head_dim = c.head_dim;
    params.n_rot = c.n_rot;
    params.theta = c.theta;
    params.scale = c.scale;
    params.head_norm = c.head_norm ? norm.get() : nullptr;
    params.head_norm_eps = 1e-6F;
    const auto values = random_floats(std::size_t{kRows} * width, 1, 2);
    std::vector<std::int32_t> positions;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(kRows); ++i)
      positions.push_back(i * i * 37 % 4096);
    const auto list = backend().make_index_list(kRows);
    list->write(positions);
    const auto x = fill(values, width);
    backend().rope(x->rows(kRows), *list, params);
    const Rows want =
        oracle_rope(to_rows(values, width), positions, params,
                    c.head_norm ? file.vector("head_norm") : std::span<const double>());
    expect_near(read(x->rows(kRows)), want, Rows(kRows, std::vector<double>(width, 2e-6)));
  }
}

}  // namespace
}  // namespace dllm::test
