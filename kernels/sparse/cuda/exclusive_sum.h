// Prefix sums of an array on a GPU, by Thrust, that is by CUB's scan.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

class ThrustMemory;

/// out[i] = in[0] + ... + in[i - 1], modulo 2^64: the same for any order of additions. Temporary memory grows when CUB
/// asks for more than in any call before; else nothing is allocated and the host does not wait, so that a second call
/// can be captured into a CUDA graph. Serves one stream.
class ExclusiveSum {
 public:
  explicit ExclusiveSum(const Device& device);

  /// @param in, out  [count] device memory, not the same
  void run(const std::uint64_t* in, std::uint64_t* out, std::int64_t count, Stream& stream);

 private:
  std::shared_ptr<ThrustMemory> memory_;
};

}  // namespace terngrad::cuda
