// Adam, with the bias correction of the paper.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/optim/optimizer.h"

namespace terngrad {

/// lr sqrt(1 - b2^t) / (1 - b1^t): what update_adam moves by, in double from multiplications, divisions and a square
/// root only, rounded once, so that it has the same bits on every machine.
/// @param update  t, 1 for the first update
float adam_step_size(float learning_rate, std::uint64_t update);

/// Adam with b1 = 0.9, b2 = 0.999 and epsilon = 1e-8 outside the correction (Kingma and Ba, "Adam: A Method for
/// Stochastic Optimization", ICLR 2015, section 2; kernels/optimizer/optimizer.h has the rule). Slots "m" and "v", zero
/// at first. t counts the updates that were applied, so a skipped step does not enter; a checkpoint keeps it as
/// "adam_updates". (The TernGrad authors' program raises the powers b^t once for each worker, so that with N workers
/// its correction vanishes N times as fast; it also ignores the schedule of the learning rate. This does neither.)
std::unique_ptr<Optimizer> make_adam(std::int64_t flat_elements, const Device& device = Device::cpu());

}  // namespace terngrad
