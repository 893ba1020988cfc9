// CUDA backend stub for builds without CUDA: there is no device, so none of these functions can be reached.
#include "kernels/factors/cuda/factor_steps.h"
#include "kernels/factors/cuda/low_rank.h"
#include "kernels/runtime/cuda/not_built.h"

namespace terngrad::cuda {

std::shared_ptr<FactorStepRunner> make_factor_step_runner(const Device&) { not_built("factors"); }
std::shared_ptr<LowRankRunner> make_low_rank_runner(const Device&) { not_built("products of low rank"); }

}  // namespace terngrad::cuda
