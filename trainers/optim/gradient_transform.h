// GradientTransform: what happens to a worker's gradient before it is encoded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compress/exchange/on_nonfinite.h"
#include "kernels/runtime/device.h"
#include "nets/net.h"

namespace terngrad {

/// What transforms changed, for the metrics.
struct TransformCounts {
  std::int64_t zeroed_elements = 0;    // NaN or infinite, of all workers' gradients together
  std::int64_t clipped_gradients = 0;  // workers whose whole gradient was made shorter

  TransformCounts& operator+=(const TransformCounts& other) {
    zeroed_elements += other.zeroed_elements;
    clipped_gradients += other.clipped_gradients;
    return *this;
  }
};

/// A change of one worker's gradient, in place. Transforms of a run are applied in order, each worker by itself, so
/// that results do not depend on which process a worker is in.
class GradientTransform {
 public:
  virtual ~GradientTransform() = default;
  virtual std::string name() const = 0;
  /// May be called for several workers at once, but not for one of them twice.
  /// @param worker      local number of the worker
  /// @param parameters  [flat elements] of the net
  /// @param gradient    [flat elements] in and out
  /// @returns what it changed
  virtual TransformCounts apply(int worker, std::span<const float> parameters, std::span<float> gradient,
                                Stream& stream) = 0;

  /// Whether what becomes of a tensor depends on that tensor alone, so that tensors can be changed one by one, as soon
  /// as each is computed.
  virtual bool is_per_tensor() const { return false; }
  /// The part of `apply` that one tensor has in it; calls for all tensors, in any order, do what `apply` does.
  /// @param segment     index of the tensor
  /// @param parameters  [elements of the tensor], as `gradient`
  /// @throws InvalidArgument if the transform is not per tensor
  virtual TransformCounts apply_to_tensor(int worker, int segment, std::span<const float> parameters,
                                          std::span<float> gradient, Stream& stream);
};

/// NaN and infinite elements become 0. Comes first: what follows sees numbers only.
std::unique_ptr<GradientTransform> make_nan_to_zero();

/// g += decay * w on the regularized tensors of a net: the gradient of decay * sum w^2 / 2 in the loss. It comes before
/// compression, as in the original.
std::unique_ptr<GradientTransform> make_weight_decay(const Net& net, double decay);

/// Clipping by global norm (Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013,
/// section 3.2): g = fl(g * fl(X / ||g||)) where ||g|| > X, over all tensors of the worker together. ||g|| is the root
/// of the sum over tensors, in order, of their sums of squares, in fp64 by the tree of kernels/statistics/statistics.h,
/// so it is the same on every machine. What has NaN or infinity is left for the exchange to find: with
/// OnNonfinite::kZero, whose exchange counts such tensors as zero, they add nothing to ||g|| and the others are scaled;
/// else the whole gradient stays as it is, for none of it is used. Comes last.
/// @param layout             of the gradient; outlives the transform
/// @param max_norm           X, above 0
/// @param num_local_workers  whose numbers apply accepts
/// @param on_nonfinite       of the exchange that follows
/// @throws InvalidArgument if max_norm is not above 0
std::unique_ptr<GradientTransform> make_clip_by_global_norm(const Layout& layout, double max_norm,
                                                            int num_local_workers,
                                                            OnNonfinite on_nonfinite = OnNonfinite::kStop);

}  // namespace terngrad
