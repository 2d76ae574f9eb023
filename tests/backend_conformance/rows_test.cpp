// embed, copy_rows and rope of every backend against the oracle: compiled into the program of each
// (subjects.hpp).
#include <algorithm>
#include <cmath>

#include "conformance.hpp"
#include "subjects.hpp"

namespace dllm::test {
namespace {

std::vector<std::int32_t> some_positions(std::uint32_t n) {
  std::vector<std::int32_t> positions;
  for (std::uint32_t i = 0; i < n; ++i)
    positions.push_back(static_cast<std::int32_t>(i * i * 37 % 4096));
  return positions;
}

class RowsOp : public SubjectsTest {};

// What reading leaves of each row's largest value.
Rows reading_tolerance(const Subject& subject, const Rows& rows) {
  Rows out = rows;
  for (auto& row : out) {
    double largest = 0;
    for (const double value : row) largest = std::max(largest, std::abs(value));
    std::fill(row.begin(), row.end(), largest * subject.read_error);
  }
  return out;
}

TEST_F(RowsOp, EmbeddingRowsEqualTheDecodedTable) {
  std::vector<DType> types = code_dtypes();
  for (const DType type : float_dtypes()) types.push_back(type);
  for (const Subject& subject : subjects()) {
    const auto backend = subject.make();
    for (const DType dtype : types) {
      SCOPED_TRACE(subject.name + " " + std::string(dtype_name(dtype)));
      WeightFile file;
      file.add("table", dtype, 11, 256, 1);
      const auto table = file.import_to(*backend, "table", WeightRole::embedding);
      const auto ids = backend->make_index_list(4);
      ids->write(std::vector<std::int32_t>{10, 0, 3, 3});
      const auto out = backend->make_buffer(4, 256);
      backend->embed(*table, *ids, out->rows(4));
      Rows want;
      for (const std::size_t id : {10, 0, 3, 3}) want.push_back(file.decoded("table")[id]);
      expect_near(subject.read(*backend, out->rows(4)), want, reading_tolerance(subject, want));
    }
  }
}

TEST_F(RowsOp, CopyPicksRowsInTheGivenOrder) {
  const auto values = random_floats(5 * 7, 1);
  for (const Subject& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    const auto backend = subject.make();
    const auto source = make_filled(*backend, values, 7);
    const auto rows = backend->make_index_list(3);
    rows->write(std::vector<std::int32_t>{4, 0, 4});
    const auto out = backend->make_buffer(3, 7);
    backend->copy_rows(source->rows(5), *rows, out->rows(3));
    Rows want;
    for (const std::ptrdiff_t r : {4, 0, 4})
      want.emplace_back(values.begin() + r * 7, values.begin() + (r + 1) * 7);
    expect_near(subject.read(*backend, out->rows(3)), want, reading_tolerance(subject, want));
  }
}

struct RopeCase {
  RopeKind kind;
  std::uint32_t head_dim;
  std::uint32_t n_rot;
  double theta;
  double scale;
  bool head_norm;
};

TEST_F(RowsOp, RopeAgreesWithOracleForBothKindsPartialRotationAndHeadNorm) {
  const std::vector<RopeCase> all = {{RopeKind::norm, 64, 64, 500000, 1, false},
                                     {RopeKind::neox, 128, 128, 1000000, 1, false},
                                     {RopeKind::neox, 64, 32, 10000, 0.25, false},
                                     {RopeKind::norm, 24, 10, 10000, 1, true},
                                     {RopeKind::neox, 20, 20, 10000, 1, true}};
  for (const Subject& subject : subjects()) {
    const auto backend = subject.make();
    for (const RopeCase& c : all) {
      SCOPED_TRACE(subject.name + " head_dim " + std::to_string(c.head_dim));
      constexpr std::uint32_t kRows = 9;
      const std::uint32_t width = 3 * c.head_dim;
      WeightFile file;
      file.add_vector("head_norm", random_floats(c.head_dim, 4, 2));
      const auto norm = file.import_to(*backend, "head_norm", WeightRole::replicated);
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
      const auto positions = some_positions(kRows);
      const auto list = backend->make_index_list(kRows);
      list->write(positions);
      const auto x = make_filled(*backend, values, width);
      backend->rope(x->rows(kRows), *list, params);
      const Rows want =
          oracle_rope(to_rows(values, width), positions, params,
                      c.head_norm ? file.vector("head_norm") : std::span<const double>());
      // Values reach 2 (or, after the norm, about 4): a handful of roundings of 2^-24.
      expect_near(subject.read(*backend, x->rows(kRows)), want,
                  Rows(kRows, std::vector<double>(width, 2e-6)));
    }
  }
}

TEST_F(RowsOp, RopeWithTwoListsInOneStepKeepsTheirOwnPositions) {
  RopeParams params;
  params.n_heads = 1;
  params.head_dim = params.n_rot = 8;
  const auto values = random_floats(2 * 8, 1);
  for (const Subject& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    const auto backend = subject.make();
    for (const std::vector<std::int32_t>& positions :
         {std::vector<std::int32_t>{0, 1}, std::vector<std::int32_t>{5, 3}}) {
      const auto list = backend->make_index_list(2);
      list->write(positions);
      const auto x = make_filled(*backend, values, 8);
      backend->rope(x->rows(2), *list, params);
      expect_near(subject.read(*backend, x->rows(2)),
                  oracle_rope(to_rows(values, 8), positions, params, {}),
                  Rows(2, std::vector<double>(8, 1e-6)));
    }
  }
}

}  // namespace
}  // namespace dllm::test
