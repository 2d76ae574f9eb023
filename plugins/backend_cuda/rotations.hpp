// Rotations that wait for the attention that reads them.
//
// Attention rotates q and k while it changes them to binary16, so inside a recorded step rope()
// only notes what is to be done. Any other operation that reads such rows has them rotated first
// (settle); one that writes them anew makes the note void (overwritten). Outside a step, where
// lists may be rewritten between operations, nothing waits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "device_memory.hpp"
#include "dllm/backend.hpp"
#include "heads.hpp"
#include "waiting_sums.hpp"

namespace dllm::cuda {

/// A call of rope(). Device pointers.
struct RopeCall {
  Rows x;
  const std::int32_t* positions = nullptr;
  RopeParams params;
  const float* head_norm = nullptr;
};

class Rotations {
 public:
  /// Rows are rotated when what waits in `sums` for them has been added.
  explicit Rotations(WaitingSums& sums) : sums_(sums) {}

  /// Bytes of tables() for steps of `n_rows` rows.
  static std::uint64_t table_bytes(std::uint64_t n_rows, std::uint64_t n_rot);
  /// The caller keeps it large enough, and does not move it inside a step.
  DeviceMemory& tables() noexcept { return tables_; }

  void begin_step();
  /// Rotates what still waits.
  void end_step(cudaStream_t stream);
  /// Forgets everything, after an error.
  void abandon_step() noexcept;

  void add(const RopeCall& call, cudaStream_t stream);
  void settle(const float* rows, cudaStream_t stream);
  void overwritten(const Rows& rows, cudaStream_t stream);
  /// What waits for these rows; the caller does it.
  Rotation take(const Rows& rows, cudaStream_t stream);

 private:
  struct Angles {
    const std::int32_t* positions = nullptr;
    RopeParams params;
  };

  void rotate(const RopeCall& call, cudaStream_t stream);
  Rotation rotation_of(const RopeCall& call, cudaStream_t stream);
  const float2* angles_of(const RopeCall& call, cudaStream_t stream);

  WaitingSums& sums_;
  bool in_step_ = false;
  std::vector<RopeCall> waiting_;
  std::vector<Angles> angles_;  // what the places of tables_ hold, for this step
  std::size_t next_place_ = 0;
  DeviceMemory tables_;
};

}  // namespace dllm::cuda
