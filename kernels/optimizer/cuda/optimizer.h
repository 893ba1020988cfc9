// Optimizer updates on a GPU, documented in kernels/optimizer/optimizer.h. Lengths of a call must agree (unchecked).
#pragma once

#include <span>

#include "kernels/optimizer/optimizer.h"

namespace terngrad::cuda {

void update_gd(std::span<float> weights, std::span<const float> gradient, float learning_rate, const Stream& stream,
               const StepScalars& scalars);
void update_momentum(std::span<float> weights, std::span<float> accumulator, std::span<const float> gradient,
                     float learning_rate, float momentum, const Stream& stream, const StepScalars& scalars);
void update_adam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                 std::span<const float> gradient, float step_size, const AdamConstants& constants, const Stream& stream,
                 const StepScalars& scalars);
void to_adam_direction(std::span<float> gradient, std::span<const float> first_moment,
                       std::span<const float> second_moment, const float* bound, const AdamConstants& constants,
                       const Stream& stream);
void update_resting_adam(std::span<float> weights, std::span<float> first_moment, std::span<const float> second_moment,
                         std::span<const float> mean_direction, float step_size, const AdamConstants& constants,
                         const Stream& stream, const StepScalars& scalars);
void update_nadam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                  std::span<const float> gradient, const UpdateRates& rates, const AdamConstants& constants,
                  const Stream& stream, const StepScalars& scalars);
void update_rmsprop(std::span<float> weights, std::span<float> mean_square, std::span<float> update,
                    std::span<const float> gradient, float learning_rate, const RmspropConstants& constants,
                    const Stream& stream, const StepScalars& scalars);
void update_ema(std::span<float> shadow, std::span<const float> weights, float decay, const Stream& stream,
                const StepScalars& scalars);
void add_weight_decay(std::span<float> gradient, std::span<const float> weights, float decay, const Stream& stream,
                      const StepScalars& scalars);

}  // namespace terngrad::cuda
