// OnNonfinite: what a run does about gradients, or means, that are not finite.
#pragma once

namespace terngrad {

enum class OnNonfinite {
  kStop,  // throw NonFiniteError naming tensor, worker and step
  kSkip,  // drop the step everywhere
  kZero,  // that worker's tensor counts as zero, and is still divided by N; a mean that overflows counts as zero
};

}  // namespace terngrad
