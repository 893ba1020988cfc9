// Prefix sums of an array on a GPU, by Thrust (CUB's scan).
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

class ThrustMemory;

/// out[i] = in[0] + ... + in[i - 1], modulo 2^64, independent of the order of additions. Allocates and waits only if
/// CUB needs more temporary storage than in any previous call, so a repeated call can be captured into a CUDA graph.
/// Use each object with one stream only.
class ExclusiveSum {
 public:
  explicit ExclusiveSum(const Device& device);

  /// @param in, out  [count] device memory, must not overlap
  void run(const std::uint64_t* in, std::uint64_t* out, std::int64_t count, Stream& stream);

 private:
  std::shared_ptr<ThrustMemory> memory_;
};

}  // namespace terngrad::cuda
