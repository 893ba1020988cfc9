// StepCounters: what transforms changed in a step.
#pragma once

#include <cstdint>

namespace terngrad::cuda {

/// What transforms changed in a step, added up in device memory.
struct StepCounters {
  std::int64_t zeroed_elements = 0;
  std::int64_t clipped_gradients = 0;
};

}  // namespace terngrad::cuda
