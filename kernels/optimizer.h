// Fused optimizer updates over flat buffers.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"

namespace terngrad {

/// Gradient descent: w -= lr * G, as fl(w - fl(lr * G)).
/// All spans have the same length; elements of padding are updated like any other (they are zero and stay zero).
/// @throws InvalidArgument if lengths differ. Bit-equal on every backend.
void update_gd(std::span<float> weights, std::span<const float> gradient, float learning_rate, Stream& stream);

/// Momentum without Nesterov or dampening: a = fl(fl(m * a) + G); w = fl(w - fl(lr * a)). The original's rule.
/// @param accumulator  a, zero before the first step
void update_momentum(std::span<float> weights, std::span<float> accumulator, std::span<const float> gradient,
                     float learning_rate, float momentum, Stream& stream);

/// Exponential moving average: shadow = fl(shadow - fl((1 - decay) * fl(shadow - w))).
void update_ema(std::span<float> shadow, std::span<const float> weights, float decay, Stream& stream);

/// Weight decay into a gradient: g = fl(g + fl(decay * w)), the gradient of decay * sum w^2 / 2.
void add_weight_decay(std::span<float> gradient, std::span<const float> weights, float decay, Stream& stream);

}  // namespace terngrad
