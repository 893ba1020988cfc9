// GradientTransform: changes of the workers' gradients before they are encoded, such as clipping.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "compress/plan/exchange_choices.h"
#include "kernels/runtime/device.h"

namespace terngrad {

class Layout;
class Net;
class TrainedTensors;
struct FlatRange;
struct Segment;
struct TransformCounts;
struct WorkerGradients;

/// Changes workers' gradients in place, in host or GPU memory, with the same bits. The transforms of a run are applied
/// in order and to each worker separately, so results do not depend on which process holds a worker.
class GradientTransform {
 public:
  virtual ~GradientTransform() = default;
  virtual std::string name() const = 0;
  /// True if each tensor is transformed independently of the others, so that it can be transformed as soon as it is
  /// computed. Threads may then call `submit` concurrently for different tensors and workers, each with its own counts.
  virtual bool is_per_tensor() const = 0;
  /// Applies the transform. On a GPU it only submits work, and can be captured into a CUDA graph once it has run.
  /// @param parameters  [flat elements]
  /// @param range       part of the gradients: whole_range, or ranges of tensors, each tensor once per step
  /// @param counts      [1] in and out: numbers of changes are added
  /// @throws InvalidArgument for a partial range if the transform is not per tensor
  virtual void submit(const float* parameters, const WorkerGradients& gradients, const FlatRange& range,
                      TransformCounts* counts, Stream& stream) = 0;
};

/// Submits all transforms in order; see GradientTransform::submit.
void submit_all(std::span<const std::unique_ptr<GradientTransform>> transforms, const float* parameters,
                const WorkerGradients& gradients, const FlatRange& range, TransformCounts* counts, Stream& stream);
/// The same for the trained tensors of whole gradients. For a transform that is not per tensor, gradients of frozen
/// ones are set to zero.
void submit_all(std::span<const std::unique_ptr<GradientTransform>> transforms, const float* parameters,
                const WorkerGradients& gradients, const TrainedTensors& trained, TransformCounts* counts,
                Stream& stream);

/// Checks transforms for steps that overlap backward pass and exchange. @throws InvalidArgument naming a transform that
/// is not per tensor
void require_per_tensor(std::span<const std::unique_ptr<GradientTransform>> transforms);

/// A transform of a caller's own of one tensor, in place: it may add the gradient of another loss term, or copy the
/// gradient to display it. Threads call it for different tensors and workers at once. @param worker  global number
using TensorFunction = std::function<void(int worker, const Segment& tensor, std::span<const float> parameters,
                                          std::span<float> gradient)>;
/// Calls the function for every tensor of every worker of this process, on the CPU. `submit` throws NotSupported for
/// gradients in GPU memory. @throws InvalidArgument for an empty function
std::unique_ptr<GradientTransform> make_tensor_transform(const std::string& name, const Layout& layout,
                                                         TensorFunction function);

/// Sets NaN and infinite elements to 0. To be the first transform: later ones then see finite numbers only.
std::unique_ptr<GradientTransform> make_nan_to_zero();

/// g += decay * w on the regularized tensors of a net: the gradient of decay * sum w^2 / 2 in the loss. Applied before
/// compression, as in the TernGrad authors' program.
std::unique_ptr<GradientTransform> make_weight_decay(const Net& net, double decay,
                                                     const Device& device = Device::cpu());

/// Clipping by global norm (Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013,
/// section 3.2): g = fl(g * fl(X / ||g||)) where ||g|| > X, over all tensors of the worker together. ||g|| is the root
/// of the sum over tensors, in order, of their sums of squares, in fp64 by the tree of kernels/statistics/statistics.h,
/// so it is bit-equal on every machine. Tensors with NaN or infinity are left for the exchange to detect: with
/// OnNonfinite::kZero, whose exchange treats them as zero, they add nothing to ||g|| and the other tensors are scaled;
/// otherwise the worker's gradient stays unscaled, because the exchange does not use it. To be the last transform.
/// @param layout        layout of one worker's gradient
/// @param max_norm      X, above 0
/// @param num_workers   number of workers in the gradients that `submit` receives
/// @param on_nonfinite  policy of the exchange that follows
/// @throws InvalidArgument if max_norm is not above 0
std::unique_ptr<GradientTransform> make_clip_by_global_norm(const Layout& layout, double max_norm, int num_workers,
                                                            OnNonfinite on_nonfinite = OnNonfinite::kStop,
                                                            const Device& device = Device::cpu());

}  // namespace terngrad
