// RMSProp with momentum, as in the TernGrad authors' program.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/optim/optimizer.h"

namespace terngrad {

/// RMSProp (Tieleman and Hinton, lecture 6.5 of "Neural Networks for Machine Learning", 2012) with decay 0.9, momentum,
/// and epsilon 1 under the root: the constants of the TernGrad authors' program. kernels/optimizer/optimizer.h has the
/// rule. Slots "ms", initially one, and "mom", initially zero, padding included; padding never reaches a parameter.
/// @param momentum  in [0, 1)
std::unique_ptr<Optimizer> make_rmsprop(double momentum, std::int64_t flat_elements,
                                        const Device& device = Device::cpu());

}  // namespace terngrad
