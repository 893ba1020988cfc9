// Fused optimizer updates over flat buffers. Asynchronous on a GPU's stream, where all pointers are device memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Scalars that an update reads from memory when it runs. Replays of a captured CUDA graph repeat the arguments of the
/// capture; these scalars let them follow a schedule or skip a step.
struct StepScalars {
  /// Null, or [1] replacing the scalar argument: the learning rate, Adam's step size, or the decay of update_ema and
  /// add_weight_decay; of update_nadam [3], its rates.
  const float* rate = nullptr;
  /// Null, or [1]: nonzero makes the update write nothing.
  const std::uint32_t* skip = nullptr;
};

/// Gradient descent: w -= lr * G, as fl(w - fl(lr * G)). All spans have the same length and do not overlap. Padding is
/// updated like other elements (it is zero and stays zero). Bit-equal on every backend, except for the bits of NaN.
/// @throws InvalidArgument if lengths differ
void update_gd(std::span<float> weights, std::span<const float> gradient, float learning_rate, Stream& stream,
               const StepScalars& scalars = {});

/// Momentum without Nesterov or dampening, as in the original TernGrad code: a = fl(fl(m * a) + G); w = fl(w - fl(lr *
/// a)).
/// @param accumulator  a, zero before the first step
void update_momentum(std::span<float> weights, std::span<float> accumulator, std::span<const float> gradient,
                     float learning_rate, float momentum, Stream& stream, const StepScalars& scalars = {});

/// Constants of Adam; the defaults are those of the paper, section 2.
struct AdamConstants {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
};

/// Adam (Kingma and Ba, ICLR 2015, the form at the end of section 2, with epsilon outside the bias correction):
///   m = fl(fl(b1 * m) + fl(fl(1 - b1) * G));  v = fl(fl(b2 * v) + fl(fl(1 - b2) * fl(G * G)))
///   w = fl(w - fl(fl(step_size * m) / fl(fl(sqrt(v)) + epsilon)))
/// If G * G overflows float32 (|G| above 1.8e19), v stays infinite: the element keeps its value while fl(step_size * m)
/// is finite, and becomes NaN (infinity / infinity) otherwise.
/// @param first_moment   m, zero before the first step
/// @param second_moment  v, zero before the first step
/// @param step_size      bias-corrected learning rate: lr * sqrt(1 - b2^t) / (1 - b1^t)
void update_adam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                 std::span<const float> gradient, float step_size, const AdamConstants& constants, Stream& stream,
                 const StepScalars& scalars = {});

/// Adam's direction of a worker, for onebit_adam: with m' = fl(fl(b1 * m) + fl(fl(1 - b1) * g)), as in update_adam,
///   d = fl(m' / fl(fl(sqrt(v)) + epsilon));  g = d within [-bound, bound], +0 where v is 0, d where it is not finite
/// @param gradient  g, in and out
/// @param bound     [1] read when the kernel runs, as StepScalars
void to_adam_direction(std::span<float> gradient, std::span<const float> first_moment,
                       std::span<const float> second_moment, const float* bound, const AdamConstants& constants,
                       Stream& stream);

/// Adam whose second moment v rests (onebit_adam), with the mean D of the workers' directions:
///   m = fl(D * fl(fl(sqrt(v)) + epsilon));  w = fl(w - fl(step_size * D));  where v is 0 or infinite: m = +0
/// So elements whose gradients were all 0 keep their values, whatever a codec adds to their zeros.
void update_resting_adam(std::span<float> weights, std::span<float> first_moment, std::span<const float> second_moment,
                         std::span<const float> mean_direction, float step_size, const AdamConstants& constants,
                         Stream& stream, const StepScalars& scalars = {});

/// Scalars of an update: [0] its rate; of update_nadam [0] the rate of the first moment, [1] that of the gradient, [2]
/// epsilon.
using UpdateRates = std::array<float, 3>;

/// Nadam (Dozat, "Incorporating Nesterov Momentum into Adam", ICLR 2016 workshop): Adam's moments m and v, and
///   w = fl(w - fl(fl(fl(rates[0] * m) + fl(rates[1] * G)) / fl(fl(sqrt(v)) + rates[2])))
/// trainers/optim/nadam.h has the rates. Squares that overflow are as in update_adam.
/// @param constants  beta1 and beta2; epsilon is in the rates
void update_nadam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                  std::span<const float> gradient, const UpdateRates& rates, const AdamConstants& constants,
                  Stream& stream, const StepScalars& scalars = {});

/// Constants of RMSProp; the defaults are those of the original TernGrad code.
struct RmspropConstants {
  float decay = 0.9f;
  float momentum = 0.9f;
  float epsilon = 1.0f;
};

/// RMSProp with momentum and epsilon inside the root, as in the original TernGrad code:
///   ms = fl(fl(decay * ms) + fl(fl(1 - decay) * fl(G * G)))
///   mom = fl(fl(momentum * mom) + fl(fl(lr * G) / fl(sqrt(fl(ms + epsilon)))));  w = fl(w - mom)
/// @param mean_square  ms, one before the first step
/// @param update       mom, zero before the first step
void update_rmsprop(std::span<float> weights, std::span<float> mean_square, std::span<float> update,
                    std::span<const float> gradient, float learning_rate, const RmspropConstants& constants,
                    Stream& stream, const StepScalars& scalars = {});

/// Exponential moving average: shadow = fl(shadow - fl((1 - decay) * fl(shadow - w))).
void update_ema(std::span<float> shadow, std::span<const float> weights, float decay, Stream& stream,
                const StepScalars& scalars = {});

/// Adds weight decay to a gradient: g = fl(g + fl(decay * w)), the gradient of decay * sum w^2 / 2.
void add_weight_decay(std::span<float> gradient, std::span<const float> weights, float decay, Stream& stream,
                      const StepScalars& scalars = {});

}  // namespace terngrad
