// Nadam: Adam with Nesterov's momentum.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/optim/optimizer.h"

namespace terngrad {

/// The momentum of update t: b1 (1 - 0.96^(0.004 t) / 2), which rises from b1 / 2 to b1 (Dozat's schedule).
double nadam_momentum(std::uint64_t update);

/// Nadam (Dozat, "Incorporating Nesterov Momentum into Adam", ICLR 2016 workshop, algorithm 2, with its momentum
/// schedule) as in Keras and PyTorch (momentum_decay 0.004): with b1 = 0.9, b2 = 0.999, mu_t = nadam_momentum(t) and
/// p_t = mu_1 ... mu_t,
///   m = b1 m + (1 - b1) G;  v = b2 v + (1 - b2) G^2
///   w -= lr (mu_(t+1) m / (1 - p_(t+1)) + (1 - mu_t) G / (1 - p_t)) / (sqrt(v / (1 - b2^t)) + epsilon)
/// kernels/optimizer/optimizer.h has the order of operations; the rates are computed in double from multiplications,
/// divisions and a square root only, so they are bit-equal on every machine. Slots and state as MomentsOptimizer.
/// @param epsilon  at least 0
std::unique_ptr<Optimizer> make_nadam(double epsilon, std::int64_t flat_elements, const Device& device = Device::cpu());

}  // namespace terngrad
