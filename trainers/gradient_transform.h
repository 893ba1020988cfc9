// GradientTransform: what happens to a worker's gradient before it is encoded.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kernels/device.h"
#include "nets/net.h"

namespace terngrad {

/// A change of one worker's gradient, in place. Transforms of a run are applied in order, each worker by itself, so
/// that results do not depend on which process a worker is in.
class GradientTransform {
 public:
  virtual ~GradientTransform() = default;
  virtual std::string name() const = 0;
  /// @param parameters  [flat elements] of the net
  /// @param gradient    [flat elements] in and out. May be called for several workers at once
  virtual void apply(std::span<const float> parameters, std::span<float> gradient, Stream& stream) const = 0;
};

/// g += decay * w on the regularized tensors of a net: the gradient of decay * sum w^2 / 2 in the loss. It comes before
/// compression, as in the original.
std::unique_ptr<GradientTransform> make_weight_decay(const Net& net, double decay);

}  // namespace terngrad
