// OnNonfinite: the policy for gradients or means that are not finite.
#pragma once

namespace terngrad {

/// Policy for gradients or means with NaN or infinity.
enum class OnNonfinite {
  kStop,  // throw NonFiniteError that names tensor, worker and step
  kSkip,  // drop the step on all ranks
  kZero,  // count that worker's tensor as zeros and still divide by N; a mean that overflows counts as zeros
};

}  // namespace terngrad
