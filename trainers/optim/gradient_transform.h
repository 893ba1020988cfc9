// GradientTransform: what happens to workers' gradients before they are encoded.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "compress/exchange/on_nonfinite.h"
#include "kernels/runtime/device.h"

namespace terngrad {

class Layout;
class Net;
struct FlatRange;
struct TransformCounts;
struct WorkerGradients;

/// A change of workers' gradients, in place, in the memory of a CPU or of a GPU, with the same bits. Transforms of a
/// run are applied in order, each worker by itself, so that results do not depend on which process a worker is in.
class GradientTransform {
 public:
  virtual ~GradientTransform() = default;
  virtual std::string name() const = 0;
  /// Whether what becomes of a tensor depends on that tensor alone, so that tensors can be changed one by one, as soon
  /// as each is computed. Several threads may then call `submit` for different tensors and workers at once, with counts
  /// of their own.
  virtual bool is_per_tensor() const = 0;
  /// On a GPU this only submits work, and can be captured into a CUDA graph once it has run.
  /// @param parameters  [flat elements]
  /// @param range       whose gradients are changed: whole_range, or one of tensors, each of which is to come once
  /// @param counts      [1] what is changed is added
  /// @throws InvalidArgument for a part of the gradient if the transform is not per tensor
  virtual void submit(const float* parameters, const WorkerGradients& gradients, const FlatRange& range,
                      TransformCounts* counts, Stream& stream) = 0;
};

/// Applies transforms in order; as GradientTransform::submit.
void submit_all(std::span<const std::unique_ptr<GradientTransform>> transforms, const float* parameters,
                const WorkerGradients& gradients, const FlatRange& range, TransformCounts* counts, Stream& stream);

/// For steps that overlap their exchange. @throws InvalidArgument that names a transform that is not per tensor
void require_per_tensor(std::span<const std::unique_ptr<GradientTransform>> transforms);

/// NaN and infinite elements become 0. Comes first: what follows sees numbers only.
std::unique_ptr<GradientTransform> make_nan_to_zero();

/// g += decay * w on the regularized tensors of a net: the gradient of decay * sum w^2 / 2 in the loss. It comes before
/// compression, as in the original.
std::unique_ptr<GradientTransform> make_weight_decay(const Net& net, double decay,
                                                     const Device& device = Device::cpu());

/// Clipping by global norm (Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013,
/// section 3.2): g = fl(g * fl(X / ||g||)) where ||g|| > X, over all tensors of the worker together. ||g|| is the root
/// of the sum over tensors, in order, of their sums of squares, in fp64 by the tree of kernels/statistics/statistics.h,
/// so it is the same on every machine. What has NaN or infinity is left for the exchange to find: with
/// OnNonfinite::kZero, whose exchange counts such tensors as zero, they add nothing to ||g|| and the others are scaled;
/// else the whole gradient stays as it is, for none of it is used. Comes last.
/// @param layout        of the gradient
/// @param max_norm      X, above 0
/// @param num_workers   whose gradients `submit` is given
/// @param on_nonfinite  of the exchange that follows
/// @throws InvalidArgument if max_norm is not above 0
std::unique_ptr<GradientTransform> make_clip_by_global_norm(const Layout& layout, double max_norm, int num_workers,
                                                            OnNonfinite on_nonfinite = OnNonfinite::kStop,
                                                            const Device& device = Device::cpu());

}  // namespace terngrad
