// Packing of integer sums of codes into lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Packs integer sums of the codes of num_workers workers, given as float32, into lanes of m = lane_levels levels
/// (CodeFormat::kLanes): sum + lane_bias(num_workers, m), which is in [0, m num_workers]. Host memory.
/// @param payload  [payload_bytes(kLanes, sums.size(), num_workers, lane_levels)] out, 8-byte aligned
void pack_sums(std::span<const float> sums, int num_workers, int lane_levels, std::uint8_t* payload);
/// Of ternary codes, whose lanes have 2 levels.
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

/// pack_sums() of many slices in one launch, step after step. On a GPU it keeps the table of tasks there: a call with
/// the tasks of the last one allocates and copies nothing, and the host does not wait. Serves one stream.
class SumPacker {
 public:
  /// Of ternary codes. @throws InvalidArgument for fewer than one worker, or more than kMaxSummedWorkers
  explicit SumPacker(int num_workers, Device device = Device::cpu());
  /// Of codes with `lane_levels` levels. @throws InvalidArgument also for lanes whose sums float32 does not hold
  SumPacker(int num_workers, int lane_levels, Device device = Device::cpu());

  /// The same bytes on every backend.
  /// @throws InvalidArgument for a misaligned payload, or another device's stream
  void run(std::span<const SumPackTask> tasks, Stream& stream);

 private:
  int num_workers_;
  int lane_levels_;
  Device device_;
  std::shared_ptr<cuda::SumPackRunner> cuda_;
};

}  // namespace terngrad
