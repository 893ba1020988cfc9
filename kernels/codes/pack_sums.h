// Packing of integer sums of codes into lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Packs integer sums of num_workers codes, given as float32 in [-num_workers, num_workers], into lanes of sum +
/// num_workers (TernaryFormat::kLanes). Host memory.
/// @param payload  [payload_bytes(kLanes, sums.size(), num_workers)] out, 8-byte aligned
void pack_sums(std::span<const float> sums, int num_workers, std::uint8_t* payload);

/// One slice of sums. Pointers are device memory on a GPU's stream.
struct SumPackTask {
  const float* sums = nullptr;  // [count]
  std::int64_t count = 0;
  std::uint8_t* payload = nullptr;  // [payload_bytes(kLanes, count, num_workers)] out, 8-byte aligned
};

namespace cuda {
class SumPackRunner;
}

/// pack_sums() of many slices in one launch, step after step. On a GPU it keeps the table of tasks there: a call with
/// the tasks of the last one allocates and copies nothing, and the host does not wait. Serves one stream.
class SumPacker {
 public:
  /// @throws InvalidArgument for fewer than one worker, or more than kMaxSummedWorkers
  explicit SumPacker(int num_workers, Device device = Device::cpu());

  /// The same bytes on every backend.
  /// @throws InvalidArgument for a misaligned payload, or another device's stream
  void run(std::span<const SumPackTask> tasks, Stream& stream);

 private:
  int num_workers_;
  Device device_;
  std::shared_ptr<cuda::SumPackRunner> cuda_;
};

}  // namespace terngrad
