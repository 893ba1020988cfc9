// CUDA backend stub for builds without CUDA: there is no device, so none of these functions can be reached.
#include "kernels/optimizer/cuda/optimizer.h"
#include "kernels/runtime/cuda/not_built.h"

namespace terngrad::cuda {

void update_gd(std::span<float>, std::span<const float>, float, const Stream&, const StepScalars&) {
  not_built("update_gd");
}
void update_momentum(std::span<float>, std::span<float>, std::span<const float>, float, float, const Stream&,
                     const StepScalars&) {
  not_built("update_momentum");
}
void update_adam(std::span<float>, std::span<float>, std::span<float>, std::span<const float>, float,
                 const AdamConstants&, const Stream&, const StepScalars&) {
  not_built("update_adam");
}
void to_adam_direction(std::span<float>, std::span<const float>, std::span<const float>, const float*,
                       const AdamConstants&, const Stream&) {
  not_built("to_adam_direction");
}
void update_resting_adam(std::span<float>, std::span<float>, std::span<const float>, std::span<const float>, float,
                         const AdamConstants&, const Stream&, const StepScalars&) {
  not_built("update_resting_adam");
}
void update_nadam(std::span<float>, std::span<float>, std::span<float>, std::span<const float>, const UpdateRates&,
                  const AdamConstants&, const Stream&, const StepScalars&) {
  not_built("update_nadam");
}
void update_rmsprop(std::span<float>, std::span<float>, std::span<float>, std::span<const float>, float,
                    const RmspropConstants&, const Stream&, const StepScalars&) {
  not_built("update_rmsprop");
}
void update_ema(std::span<float>, std::span<const float>, float, const Stream&, const StepScalars&) {
  not_built("update_ema");
}
void add_weight_decay(std::span<float>, std::span<const float>, float, const Stream&, const StepScalars&) {
  not_built("add_weight_decay");
}

}  // namespace terngrad::cuda
