// Packs integer sums of codes into lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Packs integer sums of the codes of num_workers workers, stored as float32, into lanes of m = lane_levels levels
/// (CodeFormat::kLanes): sum + lane_bias(num_workers, m), in [0, m num_workers]. Host memory.
/// @param payload  [payload_bytes(kLanes, sums.size(), num_workers, lane_levels)] out, 8-byte aligned
void pack_sums(std::span<const float> sums, int num_workers, int lane_levels, std::uint8_t* payload);
/// The same for ternary codes, whose lanes have 2 levels.
void pack_sums(std::span<const float> sums, int num_workers, std::uint8_t* payload);

/// One slice of sums. Pointers are device memory on a GPU's stream.
struct SumPackTask {
  const float* sums = nullptr;  // [count]
  std::int64_t count = 0;
  std::uint8_t* payload = nullptr;  // [payload_bytes(kLanes, count, num_workers, lane_levels)] out, 8-byte aligned
};

namespace cuda {
class SumPackRunner;
}

/// pack_sums() for many slices in one launch, step after step. On a GPU it caches the task table: a call with the same
/// tasks as the previous one neither allocates, copies nor waits. Use each object with one stream only.
class SumPacker {
 public:
  /// For ternary codes. @throws InvalidArgument for less than one worker or more than kMaxSummedWorkers
  explicit SumPacker(int num_workers, Device device = Device::cpu());
  /// For lanes of `lane_levels` levels. @throws InvalidArgument also for lanes whose sums float32 cannot represent
  SumPacker(int num_workers, int lane_levels, Device device = Device::cpu());

  /// Writes the same bytes on every backend.
  /// @throws InvalidArgument for a misaligned payload, or another device's stream
  void run(std::span<const SumPackTask> tasks, Stream& stream);

 private:
  int num_workers_;
  int lane_levels_;
  Device device_;
  std::shared_ptr<cuda::SumPackRunner> cuda_;
};

}  // namespace terngrad
