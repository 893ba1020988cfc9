// The condition on which kernels update the memory of a tensor.
#pragma once

#include <cstdint>

namespace terngrad::cuda {

/// False for a step that is skipped and for a tensor that was not finite, which the host does not know when it launches
/// the kernel.
struct Keeps {
  const float* flag;          // [1] or null: NaN if the tensor was not finite
  const std::uint32_t* skip;  // [1] or null: nonzero if the step is skipped

  __device__ bool operator()() const {
    const float of_tensor = flag == nullptr ? 0.0f : *flag;
    return (skip == nullptr || *skip == 0) && of_tensor == of_tensor;
  }
};

}  // namespace terngrad::cuda
