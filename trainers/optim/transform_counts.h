// TransformCounts: numbers of elements and gradients that transforms changed in a step.
#pragma once

#include <cstdint>

namespace terngrad {

/// Counters for the metrics, in the memory of the device on which the transforms run.
struct TransformCounts {
  std::int64_t zeroed_elements = 0;    // NaN or infinite elements set to 0, summed over workers
  std::int64_t clipped_gradients = 0;  // workers whose gradient was clipped by its norm

  TransformCounts& operator+=(const TransformCounts& other) {
    zeroed_elements += other.zeroed_elements;
    clipped_gradients += other.clipped_gradients;
    return *this;
  }
};

}  // namespace terngrad
