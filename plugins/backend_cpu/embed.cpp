// embed and copy_rows: moving rows.
#include <cstring>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {

void CpuBackend::embed(const Weight& table, const IndexList& ids, TensorView out) {
  const auto* rows = dynamic_cast<const Table*>(&table);
  DLLM_ASSERT(rows != nullptr);
  const std::span<const std::int32_t> list = static_cast<const CpuIndexList&>(ids).values();
  DLLM_ASSERT(out.n_rows == list.size() && out.n_cols == table.n_cols());
  for (const std::int32_t id : list)
    DLLM_ASSERT(id >= 0 && static_cast<std::uint32_t>(id) < table.n_rows());
  const StageTimer timer(profile_, Stage::embed, "embed");
  arena_.for_each(out.n_rows, 4, [&](std::uint32_t r, unsigned) {
    rows->decode(static_cast<std::uint32_t>(list[r]), buffer_of(out).row(r));
  });
}

void CpuBackend::copy_rows(TensorView src, const IndexList& rows, TensorView dst) {
  const std::span<const std::int32_t> list = static_cast<const CpuIndexList&>(rows).values();
  DLLM_ASSERT(src.buffer != dst.buffer && src.n_cols == dst.n_cols && dst.n_rows == list.size());
  for (const std::int32_t row : list)
    DLLM_ASSERT(row >= 0 && static_cast<std::uint32_t>(row) < src.n_rows);
  const StageTimer timer(profile_, Stage::other, "copy_rows");
  for (std::uint32_t r = 0; r < dst.n_rows; ++r)
    std::memcpy(buffer_of(dst).row(r), buffer_of(src).row(static_cast<std::uint32_t>(list[r])),
                src.n_cols * sizeof(float));
}

}  // namespace dllm::cpu
