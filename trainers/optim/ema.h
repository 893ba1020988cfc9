// Ema: exponential moving average of the parameters, which evaluation uses.
#pragma once

#include <span>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// shadow <- shadow - (1 - d) (shadow - w) after every update, with d = min(decay, (1 + t) / (10 + t)) in the 0-based
/// step t, so that the average follows quickly at first. The shadow starts as the initial parameters. The rule is that
/// of the TernGrad authors' program, which leaves open whether average or update comes first; here the update does.
class Ema {
 public:
  /// @param decay  in [0, 1); 0 makes the shadow a copy of the parameters. @throws InvalidArgument otherwise
  Ema(double decay, std::span<const float> initial);

  void update(std::span<const float> parameters, std::uint64_t step, Stream& stream);
  std::span<float> shadow() { return shadow_.span(); }
  std::span<const float> shadow() const { return shadow_.span(); }

  /// The effective decay d in a 0-based step.
  static double decay_at(double decay, std::uint64_t step);

 private:
  double decay_;
  Buffer<float> shadow_;
};

}  // namespace terngrad
