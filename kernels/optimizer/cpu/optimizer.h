// Element-wise loops of the optimizers, single-threaded on one range of a buffer.
#pragma once

#include <cstdint>

#include "kernels/optimizer/optimizer.h"

namespace terngrad::cpu {

void update_gd(float* weights, const float* gradient, std::int64_t count, float learning_rate);
void update_momentum(float* weights, float* accumulator, const float* gradient, std::int64_t count, float learning_rate,
                     float momentum);
void update_adam(float* weights, float* first_moment, float* second_moment, const float* gradient, std::int64_t count,
                 float step_size, const AdamConstants& constants);
void to_adam_direction(float* gradient, const float* first_moment, const float* second_moment, std::int64_t count,
                       float bound, const AdamConstants& constants);
void update_resting_adam(float* weights, float* first_moment, const float* second_moment, const float* mean_direction,
                         std::int64_t count, float step_size, const AdamConstants& constants);
void update_nadam(float* weights, float* first_moment, float* second_moment, const float* gradient, std::int64_t count,
                  const UpdateRates& rates, const AdamConstants& constants);
void update_rmsprop(float* weights, float* mean_square, float* update, const float* gradient, std::int64_t count,
                    float learning_rate, const RmspropConstants& constants);
/// shadow -= rate * (shadow - weights).
void update_ema(float* shadow, const float* weights, std::int64_t count, float rate);
/// target += factor * source.
void add_scaled(float* target, const float* source, std::int64_t count, float factor);

}  // namespace terngrad::cpu
