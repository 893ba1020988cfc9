// Net: the trainer's interface to a neural network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/layout.h"
#include "nets/layer_spec.h"

namespace terngrad {

/// Shape of one image. Images are stored [height, width, channels], channels fastest.
struct ImageShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::int64_t num_elements() const { return std::int64_t{height} * width * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// A loss for nets on the CPU (NetOptions::loss). It returns the mean loss of a slice's examples and writes its
/// gradient by the logits. Threads call it for different slices at once; its bits must depend on the arguments only.
/// See loss.h.
/// @param logits    [n, num_classes]
/// @param labels    [n], in [0, num_classes); n >= 1
/// @param gradient  [n, num_classes] out
using Loss = std::function<double(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                                  std::span<float> gradient)>;

/// Run-time options of a net. Results depend on `threads_per_worker` (it changes oneDNN's order of summation), on
/// `examples_per_worker` and, through draws, on `seed` and a worker's global number, but not on the number of workers
/// in the process (contract B3).
struct NetOptions {
  int num_local_workers = 1;    // workers whose gradients this process computes
  int examples_per_worker = 1;  // examples in each worker's slice of a training batch
  int threads_per_worker = 1;   // threads that compute one worker's slice
  /// Threads of the process, at least threads_per_worker. With threads_per_worker = 1 that many workers run in
  /// parallel; with more, workers run sequentially.
  int num_threads = 1;
  int first_local_worker = 0;  // global number of local worker 0
  std::uint64_t seed = 1;      // seed of training draws (dropout)
  /// Takes the place of softmax cross-entropy, for the logits and auxiliary losses, in nets on the CPU without label
  /// smoothing. Empty: softmax cross-entropy.
  Loss loss = {};
};

/// The training examples of this process's workers: worker w owns examples [w * examples_per_worker, (w + 1) *
/// examples_per_worker).
struct TrainBatch {
  std::span<const float> images;         // [num_local_workers * examples_per_worker, height, width, channels]
  std::span<const std::int32_t> labels;  // [num_local_workers * examples_per_worker], in [0, num_classes)
  std::uint64_t step = 0;                // training step, below 2^40; keys the draws
  /// [num_local_workers] each worker's state, flat [state_layout().flat_elements()], 64-byte aligned, in and out. May
  /// be empty if the net has no state.
  std::span<float* const> states = {};
  /// [num_local_workers * examples_per_worker, num_classes] out: the logits of the training pass. May be empty, and
  /// must be unless Net::writes_logits.
  std::span<float> logits = {};
};

/// Losses of one worker's slice.
struct WorkerLoss {
  double entropy_loss = 0;    // mean softmax cross-entropy of the logits over the slice, in nats; or NetOptions::loss
  int num_correct = 0;        // number of examples whose label has the largest logit
  double auxiliary_loss = 0;  // weighted sum of the auxiliary losses; the gradient is of entropy_loss + auxiliary_loss
};

/// Name and version of the library that computes nets on the CPU, and its number of the instruction set in use (bounded
/// by DNNL_MAX_CPU_ISA). The bits of results depend on all three.
std::string cpu_library();

/// Called when local worker `worker`'s gradient of `segment` is final, in the order of Net::gradient_order. Calls for
/// one worker are sequential; calls for different workers may be concurrent, from different threads.
using SegmentReady = std::function<void(int worker, int segment)>;

/// Called with a layer's name and output, [num_examples, height, width, channels], valid during the call.
using OutputVisitor = std::function<void(const std::string& layer, std::span<const float> output)>;

/// A classifier with a softmax cross-entropy loss, or NetOptions::loss; training adds the auxiliary losses and label
/// smoothing of NetSpec. The caller owns all tensors, in flat buffers: parameters, one buffer as in `layout()`;
/// gradients, one such buffer per local worker; and state (moving statistics that training passes update), one buffer
/// as in `state_layout()` per worker.
class Net {
 public:
  virtual ~Net() = default;

  virtual const std::string& name() const = 0;
  virtual const Layout& layout() const = 0;
  /// Layout of the state; empty if the net has none.
  virtual const Layout& state_layout() const = 0;
  virtual ImageShape image_shape() const = 0;
  virtual int num_classes() const = 0;
  /// The device of the spans below, except for initial values and losses, which are in host memory.
  virtual Device device() const { return Device::cpu(); }
  /// True if compute_gradients writes TrainBatch::logits.
  virtual bool writes_logits() const { return false; }
  /// True if weight decay applies to this segment (never for biases).
  virtual bool is_regularized(int segment) const = 0;
  /// All segments in the order in which a worker's backward pass completes their gradients; by default the layout's
  /// order reversed.
  virtual std::vector<int> gradient_order() const;

  /// Writes the initial parameters; draws depend on `seed` and the tensor only (DrawPurpose::kInitializer).
  /// @param parameters  [layout().flat_elements()] out; padding is set to zero
  virtual void initialize(std::uint64_t seed, std::span<float> parameters) const = 0;
  /// Writes the initial state. @param state  [state_layout().flat_elements()] out; padding is set to zero
  virtual void initialize_state(std::span<float> state) const = 0;

  /// Computes each local worker's gradient of its mean loss (without weight decay), and updates its state.
  /// @param parameters  [flat_elements]
  /// @param gradients   [num_local_workers] pointers to flat buffers [flat_elements], 64-byte aligned; every segment is
  ///                    overwritten, padding is not. Different workers need different buffers
  /// @param losses      [num_local_workers] out
  /// @throws InvalidArgument for spans of other sizes, a step of 2^40 or more or a label outside [0, num_classes);
  ///         NotSupported for logits that it does not write; any exception of on_segment_ready or NetOptions::loss.
  ///         Gradients, losses and states are then undefined
  /// Bitwise repeatable for a fixed threads_per_worker, independent of num_local_workers. Not for concurrent calls.
  virtual void compute_gradients(std::span<const float> parameters, const TrainBatch& batch,
                                 std::span<float* const> gradients, std::span<WorkerLoss> losses,
                                 const SegmentReady& on_segment_ready = {}) = 0;

  /// Computes logits of any number of images in evaluation mode: without dropout, with moving statistics. An image's
  /// logits depend on the image, the parameters and the state only, not on other images, workers or threads.
  /// @param state  [state_layout().flat_elements()]; empty if the net has none
  virtual void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
                       int num_examples, std::span<float> logits) = 0;

  /// Calls `visit` with every layer's output of a pass in evaluation mode, in the order of layers: on the CPU, from
  /// host memory, on any device. The output of a layer with an activation function is that function's. By default there
  /// are no layers.
  /// @param parameters, state, images, num_examples  as predict takes them, but in host memory; num_examples >= 1
  virtual void visit_outputs(std::span<const float> /*parameters*/, std::span<const float> /*state*/,
                             std::span<const float> /*images*/, int /*num_examples*/,
                             const OutputVisitor& /*visit*/) const {}
};

/// Options of nets that are made by name. Nets ignore options that do not apply.
struct NetConfig {
  float dropout_keep_prob = 0.5f;  // for every dropout layer; half of it in auxiliary classifiers
};

/// Net names that net_spec and make_net accept.
std::vector<std::string> net_names();

/// The spec of the net with that name. @throws InvalidArgument for an unknown name
NetSpec net_spec(const std::string& name, const NetConfig& config = {});

/// The tensors of the net with that name for its usual images: 10 classes for nets for MNIST and CIFAR-10, 1001 for
/// ImageNet. @throws InvalidArgument for an unknown name
Layout net_layout(const std::string& name);

/// Creates a net for images of `shape` and `num_classes` classes, from a spec or by name.
/// @throws InvalidArgument for an unknown name, a spec that plan_net (net_plan.h) rejects, an unsuitable image shape,
///         invalid options, or NetOptions::loss with label smoothing; NotSupported if the backend cannot run a layer
std::unique_ptr<Net> make_net(const NetSpec& spec, const ImageShape& shape, int num_classes, const NetOptions& options);
std::unique_ptr<Net> make_net(const std::string& name, const ImageShape& shape, int num_classes,
                              const NetOptions& options, const NetConfig& config = {});

}  // namespace terngrad
