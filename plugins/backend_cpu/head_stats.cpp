// head_stats and logits: walking the vocabulary.
//
// An item is kStatsTile ids: their logits for all rows are computed into the thread's own scratch
// and reduced at once to one TilePartial per row; partials are merged in tile order afterwards.
// Rows with filters or a top list are stored whole instead, a bounded number at a time
// (head_filter.cpp).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"
#include "head_filter.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint32_t kStatsTile = 512;  // ids
constexpr std::uint32_t kProbes = 64;      // most prob_of ids
static_assert(kStatsTile % kTileRows == 0 && kStatsTile % 4 == 0);

std::uint32_t stats_tiles(std::uint32_t n_vocab) { return (n_vocab + kStatsTile - 1) / kStatsTile; }

bool is_stored(const HeadRow& row, std::uint32_t n_vocab) {
  return needs_whole_row(*row.request, n_vocab);
}

// Statistics that are a region of their own, inside the head's span.
class StatsTimer {
 public:
  explicit StatsTimer(ProfileSink* sink) : sink_(sink), begin_ns_(sink ? profile_now_ns() : 0) {}
  StatsTimer(const StatsTimer&) = delete;
  StatsTimer& operator=(const StatsTimer&) = delete;
  ~StatsTimer() {
    if (sink_) sink_->move(Stage::head, Stage::stats, profile_now_ns() - begin_ns_);
  }

 private:
  ProfileSink* sink_;
  std::int64_t begin_ns_;
};

// Copies the results of multiply_tiles but those of the first `skipped` rows to n_rows rows of
// `stride` floats; `to` is where the first output of the first one goes.
void copy_tiles(const float* acc, std::uint32_t skipped, std::uint32_t n_rows, const Matrix& output,
                TileRange tiles, float* to, std::uint64_t stride) {
  for (std::uint32_t i = 0; i < tiles.count; ++i, to += kTileRows) {
    const std::uint32_t n = output.tile_rows(tiles.first + i);
    acc += skipped * kTileRows;
    for (std::uint32_t r = 0; r < n_rows; ++r, acc += kTileRows)
      if (n == kTileRows) {  // a size the compiler knows
        std::memcpy(to + r * stride, acc, kTileRows * sizeof(float));
      } else {
        std::memcpy(to + r * stride, acc, n * sizeof(float));
      }
  }
}

// The best draw of a row so far, shared by the threads. Whoever sees an old value only compares
// more candidates: which one wins does not depend on it.
double best_draw(double& shared) {
  return std::atomic_ref<double>(shared).load(std::memory_order_relaxed);
}
void raise_best_draw(double& shared, double value) {
  const std::atomic_ref<double> best(shared);
  double seen = best.load(std::memory_order_relaxed);
  while (value > seen && !best.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void CpuBackend::reserve_head(std::uint32_t n_rows, std::uint32_t n_vocab) {
  head_rows_.reserve(n_rows);
  grow(head_partials_, std::uint64_t{n_rows} * stats_tiles(n_vocab) * sizeof(TilePartial),
       "head statistics");
  grow(head_best_draws_, n_rows * sizeof(double), "head statistics");
  grow(head_probes_, std::uint64_t{n_rows} * kProbes * sizeof(float), "head statistics");
  grow(stored_logits_, stored_bytes(n_rows, n_vocab), "stored logits");
  const std::uint64_t tile_bytes = std::uint64_t{n_rows} * kStatsTile * sizeof(float);
  const std::uint64_t bytes = std::max(tile_bytes, n_vocab * sizeof(Candidate));
  for (auto& each : scratch_) grow(each->head, bytes, "head scratch");
}

void CpuBackend::head_stats(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                            std::span<const StatsRequest> requests, HeadStats& stats) {
  const Matrix& matrix = matrix_of(output);
  DLLM_ASSERT(matrix.n_cols() == hidden.n_cols);
  for (const StatsRequest& request : requests) {
    require_room(request, hidden.n_rows, stats);
    DLLM_ASSERT(request.prob_of.size() <= kProbes);
  }
  list_head_rows(requests, matrix.n_rows());
  if (head_rows_.empty()) return;
  StageTimer timer(profile_, Stage::head, "head_stats");
  add_products_work(timer, matrix, hidden.n_rows);
  Needs needs;
  needs.add(input_form(multiplier_, matrix));
  const Panel panel = prepare(hidden, &norm, eps, needs);
  reserve_accumulators(hidden.n_rows);
  reserve_head(std::max<std::uint32_t>(hidden.n_rows, head_rows_.size()), matrix.n_rows());
  std::fill_n(head_probes_.as<float>(), head_rows_.size() * kProbes, -__builtin_inff());

  if (!is_stored(head_rows_.front(), matrix.n_rows())) stream_rows(panel, matrix, stats);
  if (is_stored(head_rows_.back(), matrix.n_rows())) store_rows(panel, matrix, stats);
}

// Streamed rows first, then stored ones; rows of a request stay side by side.
void CpuBackend::list_head_rows(std::span<const StatsRequest> requests, std::uint32_t n_vocab) {
  head_rows_.clear();
  for (const bool stored : {false, true})
    for (const StatsRequest& request : requests) {
      if (needs_whole_row(request, n_vocab) != stored) continue;
      for (std::uint32_t i = 0; i < request.positions.size(); ++i)
        head_rows_.push_back({&request, request.first_row + i, request.guidance_first_row + i,
                              request.positions[i]});
    }
}

void CpuBackend::stream_rows(const Panel& panel, const Matrix& output, HeadStats& stats) {
  const std::uint32_t n_vocab = output.n_rows();
  const std::uint32_t n_tiles = stats_tiles(n_vocab);
  const auto n_rows = static_cast<std::uint32_t>(
      std::find_if(head_rows_.begin(), head_rows_.end(),
                   [&](const HeadRow& row) { return is_stored(row, n_vocab); }) -
      head_rows_.begin());
  auto* partials = head_partials_.as<TilePartial>();
  auto* probes = head_probes_.as<float>();
  auto* best_draws = head_best_draws_.as<double>();
  std::fill_n(best_draws, n_rows, Draw().value);

  const std::uint32_t tiles_each = TilePasses(multiplier_, output, panel.n_rows).tiles_each();
  const std::int64_t begin_ns = profile_ ? profile_now_ns() : 0;
  arena_.for_each(n_tiles, 1, [&](std::uint32_t tile, unsigned slot) {
    const std::int64_t item_ns = profile_ ? profile_now_ns() : 0;
    const std::uint32_t first_id = tile * kStatsTile;
    const std::uint32_t n = std::min(kStatsTile, n_vocab - first_id);
    auto* logits = scratch(slot).head.as<float>();
    auto* acc = scratch(slot).accumulators.as<float>();
    const std::uint32_t end_tile = (first_id + n + kTileRows - 1) / kTileRows;
    for (std::uint32_t first = first_id / kTileRows; first < end_tile; first += tiles_each) {
      const TileRange tiles = {first, std::min(tiles_each, end_tile - first)};
      multiply_tiles(multiplier_, output, tiles, panel, 0, panel.n_rows, scratch(slot).tile, acc);
      copy_tiles(acc, 0, panel.n_rows, output, tiles, logits + first * kTileRows - first_id,
                 kStatsTile);
    }
    const std::int64_t products_end_ns = profile_ ? profile_now_ns() : 0;
    // Guidance first for all rows: a reduced row is overwritten, and it may be another's pair.
    for (std::uint32_t r = 0; r < n_rows; ++r) {
      const HeadRow& row = head_rows_[r];
      if (row.request->guided)
        blend(logits + std::uint64_t{row.row} * kStatsTile,
              logits + std::uint64_t{row.pair_row} * kStatsTile, n, row.request->guidance_scale);
    }
    for (std::uint32_t r = 0; r < n_rows; ++r) {
      const HeadRow& row = head_rows_[r];
      TilePartial& partial = partials[std::uint64_t{r} * n_tiles + tile];
      partial = reduce_tile(kernels_, row, first_id, logits + std::uint64_t{row.row} * kStatsTile,
                            n, best_draw(best_draws[r]), probes + std::uint64_t{r} * kProbes);
      if (partial.draw.id >= 0) raise_best_draw(best_draws[r], partial.draw.value);
    }
    if (!profile_) return;
    scratch(slot).products_ns += products_end_ns - item_ns;
    scratch(slot).stats_ns += profile_now_ns() - products_end_ns;
  });
  if (profile_) move_stats_share(profile_now_ns() - begin_ns);

  const StatsTimer timer(profile_);
  arena_.for_each(n_rows, 4, [&](std::uint32_t r, unsigned) {
    const float inverse = confidence_inverse_temperature(*head_rows_[r].request);
    const TilePartial whole = merge_tiles(partials + std::uint64_t{r} * n_tiles, n_tiles, inverse);
    write_row(head_rows_[r], whole, probes + std::uint64_t{r} * kProbes, stats);
  });
}

// Products and statistics of a tile are one item: the region's time is shared as the threads' is.
void CpuBackend::move_stats_share(std::int64_t region_ns) {
  std::int64_t products_ns = 0;
  std::int64_t stats_ns = 0;
  for (auto& each : scratch_) {
    products_ns += std::exchange(each->products_ns, 0);
    stats_ns += std::exchange(each->stats_ns, 0);
  }
  const std::int64_t all_ns = std::max<std::int64_t>(products_ns + stats_ns, 1);
  profile_->move(
      Stage::head, Stage::stats,
      static_cast<std::int64_t>(static_cast<double>(region_ns) * static_cast<double>(stats_ns) /
                                static_cast<double>(all_ns)));
}

void CpuBackend::logits_of(const Panel& panel, const Matrix& output, std::uint32_t first_row,
                           std::uint32_t n_rows, float* out) {
  const std::uint32_t skipped = first_row % kCodeRows;
  const std::uint32_t n_multiplied = skipped + n_rows;
  const TilePasses passes(multiplier_, output, n_multiplied);
  arena_.for_each(passes.count(), tile_grain(output, n_rows),
                  [&](std::uint32_t pass, unsigned slot) {
                    auto* acc = scratch(slot).accumulators.as<float>();
                    multiply_tiles(multiplier_, output, passes[pass], panel, first_row - skipped,
                                   n_multiplied, scratch(slot).tile, acc);
                    copy_tiles(acc, skipped, n_rows, output, passes[pass],
                               out + passes[pass].first * kTileRows, output.n_rows());
                  });
}

void CpuBackend::store_rows(const Panel& panel, const Matrix& output, HeadStats& stats) {
  const std::uint32_t n_vocab = output.n_rows();
  const std::uint32_t at_once = stored_rows(n_vocab);
  auto* stored = stored_logits_.as<float>();
  const auto n_head_rows = static_cast<std::uint32_t>(head_rows_.size());
  std::uint32_t begin = 0;
  while (begin < n_head_rows && !is_stored(head_rows_[begin], n_vocab)) ++begin;
  while (begin < n_head_rows) {
    // Rows of one request lie side by side, so a stretch of them is one product.
    const StatsRequest& request = *head_rows_[begin].request;
    const std::uint32_t copies = request.guided ? 2 : 1;
    std::uint32_t end = begin + 1;
    while (end < n_head_rows && head_rows_[end].request == &request &&
           (end - begin) < std::max(at_once / copies, 1u))
      ++end;
    const std::uint32_t n = end - begin;
    float* pairs = stored + std::uint64_t{n} * n_vocab;
    logits_of(panel, output, head_rows_[begin].row, n, stored);
    if (request.guided) logits_of(panel, output, head_rows_[begin].pair_row, n, pairs);
    const StatsTimer timer(profile_);
    arena_.for_each(n, 1, [&](std::uint32_t i, unsigned slot) {
      float* row = stored + std::uint64_t{i} * n_vocab;
      if (request.guided)
        blend(row, pairs + std::uint64_t{i} * n_vocab, n_vocab, request.guidance_scale);
      whole_row_stats(kernels_, head_rows_[begin + i], row, n_vocab,
                      scratch(slot).head.as<Candidate>(), stats);
    });
    begin = end;
  }
}

void CpuBackend::logits(TensorView hidden, const Weight& norm, float eps, const Weight& output,
                        std::span<float> out) {
  const Matrix& matrix = matrix_of(output);
  DLLM_ASSERT(matrix.n_cols() == hidden.n_cols);
  DLLM_ASSERT(out.size() == std::uint64_t{hidden.n_rows} * matrix.n_rows());
  if (hidden.n_rows == 0) return;
  StageTimer timer(profile_, Stage::head, "logits");
  add_products_work(timer, matrix, hidden.n_rows);
  Needs needs;
  needs.add(input_form(multiplier_, matrix));
  const Panel panel = prepare(hidden, &norm, eps, needs);
  reserve_accumulators(hidden.n_rows);
  logits_of(panel, matrix, 0, hidden.n_rows, out.data());
}

}  // namespace dllm::cpu
