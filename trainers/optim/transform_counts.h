// TransformCounts: what gradient transforms changed in a step.
#pragma once

#include <cstdint>

namespace terngrad {

/// For the metrics. Transforms add to it in the memory of the device on which they run.
struct TransformCounts {
  std::int64_t zeroed_elements = 0;    // NaN or infinite, of all workers' gradients together
  std::int64_t clipped_gradients = 0;  // workers whose whole gradient was made shorter

  TransformCounts& operator+=(const TransformCounts& other) {
    zeroed_elements += other.zeroed_elements;
    clipped_gradients += other.clipped_gradients;
    return *this;
  }
};

}  // namespace terngrad
