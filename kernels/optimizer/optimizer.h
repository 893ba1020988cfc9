// Fused optimizer updates over flat buffers. On a GPU's stream all pointers are device memory, and the host does not
// wait.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// What an update may read when it runs instead of being told when it is submitted: a step that was captured into a
/// CUDA graph is replayed with the arguments of its capture, and follows a schedule or skips a step by these.
struct StepScalars {
  /// Null, or [1] the rate, in place of the argument: the learning rate; Adam's step size; the decay of update_ema and
  /// add_weight_decay.
  const float* rate = nullptr;
  /// Null, or [1]: if it is not 0, the update writes nothing.
  const std::uint32_t* skip = nullptr;
};

/// Gradient descent: w -= lr * G, as fl(w - fl(lr * G)).
/// All spans have the same length and do not overlap; elements of padding are updated like any other (they are zero and
/// stay zero).
/// @throws InvalidArgument if lengths differ. Bit-equal on every backend, except for the bits of NaN.
void update_gd(std::span<float> weights, std::span<const float> gradient, float learning_rate, Stream& stream,
               const StepScalars& scalars = {});

/// Momentum without Nesterov or dampening: a = fl(fl(m * a) + G); w = fl(w - fl(lr * a)). The original's rule.
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
/// G * G beyond fp32, |G| above 1.8e19, makes v infinite for good: such elements stay where they
/// are while fl(step_size * m) is finite, and become NaN (infinity over infinity) once it is not.
/// @param first_moment   m, zero before the first step
/// @param second_moment  v, zero before the first step
/// @param step_size      the learning rate with the bias correction: lr * sqrt(1 - b2^t) / (1 - b1^t)
void update_adam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                 std::span<const float> gradient, float step_size, const AdamConstants& constants, Stream& stream,
                 const StepScalars& scalars = {});

/// Constants of RMSProp; the defaults are those of the original.
struct RmspropConstants {
  float decay = 0.9f;
  float momentum = 0.9f;
  float epsilon = 1.0f;
};

/// RMSProp with momentum and epsilon inside the root, the original's rule:
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

/// Weight decay into a gradient: g = fl(g + fl(decay * w)), the gradient of decay * sum w^2 / 2.
void add_weight_decay(std::span<float> gradient, std::span<const float> weights, float decay, Stream& stream,
                      const StepScalars& scalars = {});

}  // namespace terngrad
