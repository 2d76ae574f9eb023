#include "rotations.hpp"

#include <algorithm>

#include "dllm/error.hpp"

namespace dllm::cuda {
namespace {

constexpr std::size_t kPlaces = 2;  // the angles of all rows, and of the scored ones

bool same_angles(const RopeParams& a, const RopeParams& b) {
  return a.n_rot == b.n_rot && a.theta == b.theta && a.scale == b.scale;
}

}  // namespace

std::uint64_t Rotations::table_bytes(std::uint64_t n_rows, std::uint64_t n_rot) {
  return kPlaces * n_rows * (n_rot / 2) * sizeof(float2);
}

void Rotations::begin_step() {
  abandon_step();
  in_step_ = true;
}

void Rotations::end_step(cudaStream_t stream) {
  for (const RopeCall& call : waiting_) rotate(call, stream);
  abandon_step();
}

void Rotations::abandon_step() noexcept {
  in_step_ = false;
  waiting_.clear();
  angles_.clear();
  next_place_ = 0;
}

void Rotations::add(const RopeCall& call, cudaStream_t stream) {
  settle(call.x.values, stream);
  if (!in_step_) return rotate(call, stream);
  waiting_.push_back(call);
}

void Rotations::settle(const float* rows, cudaStream_t stream) {
  std::erase_if(waiting_, [&](const RopeCall& call) {
    if (call.x.values != rows) return false;
    rotate(call, stream);
    return true;
  });
}

void Rotations::overwritten(const Rows& rows, cudaStream_t stream) {
  std::erase_if(waiting_, [&](const RopeCall& call) {
    return call.x.values == rows.values && call.x.n_rows <= rows.n_rows;
  });
  settle(rows.values, stream);
}

Rotation Rotations::take(const Rows& rows, cudaStream_t stream) {
  const auto call = std::find_if(waiting_.begin(), waiting_.end(), [&](const RopeCall& each) {
    return each.x.values == rows.values && each.x.n_rows == rows.n_rows;
  });
  if (call == waiting_.end()) {
    settle(rows.values, stream);
    return {};
  }
  const Rotation rotation = rotation_of(*call, stream);
  waiting_.erase(call);
  return rotation;
}

void Rotations::rotate(const RopeCall& call, cudaStream_t stream) {
  sums_.settle(call.x.values);
  HeadJobs jobs;
  jobs.head_dim = call.params.head_dim;
  jobs.count = 1;
  jobs.job[0] = {call.x, call.params.n_heads, rotation_of(call, stream), {}, {}};
  launch_heads(jobs, stream);
}

Rotation Rotations::rotation_of(const RopeCall& call, cudaStream_t stream) {
  return {angles_of(call, stream), call.params.n_rot, call.params.kind == RopeKind::neox,
          call.head_norm, call.params.head_norm_eps};
}

const float2* Rotations::angles_of(const RopeCall& call, cudaStream_t stream) {
  const auto place_of = [&](std::size_t i) {
    return tables_.as<float2>() + i * (tables_.bytes() / kPlaces / sizeof(float2));
  };
  if (in_step_)
    for (std::size_t i = 0; i < angles_.size(); ++i)
      if (angles_[i].positions == call.positions && same_angles(angles_[i].params, call.params))
        return place_of(i);
  DLLM_ASSERT(table_bytes(call.x.n_rows, call.params.n_rot) <= tables_.bytes());
  const std::size_t place = next_place_;
  next_place_ = (next_place_ + 1) % kPlaces;
  if (angles_.size() <= place) angles_.resize(place + 1);
  angles_[place] = {call.positions, call.params};
  launch_angles(call.positions, call.x.n_rows, call.params, place_of(place), stream);
  return place_of(place);
}

}  // namespace dllm::cuda
