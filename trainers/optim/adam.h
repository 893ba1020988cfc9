// Adam, with the bias correction of the paper.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/optim/optimizer.h"

namespace terngrad {

/// Step size of update_adam with bias corrections: lr sqrt(1 - b2^s) / (1 - b1^t). Computed in double from
/// multiplications, divisions and a square root only, and rounded once, so it is bit-equal on every machine.
/// @param update            t, number of the update, 1 for the first
/// @param variance_updates  s, updates that v has had by then; Adam's is t
float adam_step_size(float learning_rate, std::uint64_t update, std::uint64_t variance_updates);

/// Adam with b1 = 0.9, b2 = 0.999 and epsilon = 1e-8 outside the correction (Kingma and Ba, "Adam: A Method for
/// Stochastic Optimization", ICLR 2015, section 2; kernels/optimizer/optimizer.h has the rule). Slots "m" and "v",
/// initially zero. t counts applied updates, so skipped steps do not advance it; checkpoints store it as
/// "adam_updates". (The TernGrad authors' program multiplies the powers b^t once per worker, so that with N workers its
/// correction vanishes N times as fast, and it ignores the learning-rate schedule. This implementation does neither.)
std::unique_ptr<Optimizer> make_adam(std::int64_t flat_elements, const Device& device = Device::cpu());

}  // namespace terngrad
