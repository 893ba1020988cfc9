// 1-bit Adam and 0/1 Adam: Adam whose workers exchange directions in steps that compress.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainers/optim/optimizer.h"

namespace terngrad {

/// Adam (trainers/optim/adam.h) that never squares what a codec made of a gradient. In a step that exchanges fp32 it
/// updates m and v as Adam does; until the first step that compresses it is Adam to the bit. In a step that compresses
/// v rests, and worker r sends its direction:
///   d_r = (b1 m + (1 - b1) g_r) / (sqrt(v) + e);   D = mean of the messages;   m = D (sqrt(v) + e)
///   w -= lr sqrt(1 - b2^s) / (1 - b1^t) D
/// t counts all updates, s those of v; e is Adam's epsilon. Elements whose v is 0 or has overflowed send 0 and stay
/// put. Since v does not follow gradients that grow, an element of d_r is limited to 7.27 / sqrt(1 - b2^s): after the
/// first steps, and but for the codec's error, it moves a weight by at most 7.27 lr, the most that Adam ever does.
///
/// With an exchange in fp32 before step T and a memory with error feedback this is 1-bit Adam (Tang et al., "1-bit
/// Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed", ICML 2021, algorithm 1), for any
/// codec. It differs by the bias corrections, the two rules above for v, the mean, which has no error feedback of its
/// own, and by dividing momenta before they are encoded: elements of a net's momentum differ by orders of magnitude, as
/// does sqrt(v), and codecs share scales between elements. Dividing a codec's error by a small sqrt(v) made ternary and
/// eden diverge on CifarNet (docs/codecs.md). If steps with fp32 come back (is_variance_step), it is 0/1 Adam (Lu et
/// al., "Maximizing Communication Efficiency for Large-scale Training via 0/1 Adam", ICLR 2023) without local steps; m
/// too is exact in those steps.
///
/// Slots "m" and "v", initially zero; checkpoints store t as NAME_updates and s as NAME_variance_updates.
/// @param name  "onebit_adam" or "zero_one_adam"
std::unique_ptr<Optimizer> make_onebit_adam(const std::string& name, std::int64_t flat_elements,
                                            const Device& device = Device::cpu());

/// True if 0/1 Adam updates v in the 0-based step: at k_0 = 0 and k_(j+1) = k_j + 2^floor(j / scaler), the rule of its
/// publication. @param step  below 2^63. @param scaler  at least 1, the updates after which intervals double
bool is_variance_step(std::uint64_t step, std::uint64_t scaler);

}  // namespace terngrad
