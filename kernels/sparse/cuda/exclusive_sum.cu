#include "kernels/sparse/cuda/exclusive_sum.h"

#include <thrust/scan.h>

#include "kernels/runtime/cuda/thrust.cuh"

namespace terngrad::cuda {

ExclusiveSum::ExclusiveSum(const Device& device) : memory_(std::make_shared<ThrustMemory>(device)) {}

void ExclusiveSum::run(const std::uint64_t* in, std::uint64_t* out, std::int64_t count, Stream& stream) {
  if (count == 0) return;
  run_thrust(*memory_, stream,
             [=](const auto& policy) { thrust::exclusive_scan(policy, in, in + count, out, std::uint64_t{0}); });
}

}  // namespace terngrad::cuda
