// Net: what a trainer sees of a neural network.
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

/// Sizes of one input image: rows, columns, channels. Images are stored [height, width, channels], channels fastest.
struct ImageShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::int64_t num_elements() const { return std::int64_t{height} * width * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// How a net is to be run. Results may depend on `threads_per_worker` (oneDNN sums in an order that depends on it), on
/// `examples_per_worker` and, through draws, on `seed` and a worker's global number; not on how many workers a process
/// holds (contract B3).
struct NetOptions {
  int num_local_workers = 1;    // workers whose gradients this process computes
  int examples_per_worker = 1;  // examples in each worker's slice of a training batch
  int threads_per_worker = 1;   // threads that compute one worker's slice
  int num_threads = 1;          // threads of the process, at least threads_per_worker. With threads_per_worker = 1 that
                                // many workers run side by side; with more, one worker runs after the other
  int first_local_worker = 0;   // global number of local worker 0
  std::uint64_t seed = 1;       // of what is drawn in training (dropout)
};

/// The training examples of this process's workers: worker w owns examples [w * examples_per_worker, (w + 1) *
/// examples_per_worker).
struct TrainBatch {
  std::span<const float> images;         // [num_local_workers * examples_per_worker, height, width, channels]
  std::span<const std::int32_t> labels;  // [num_local_workers * examples_per_worker], in [0, num_classes)
  std::uint64_t step = 0;                // training step, below 2^40: what is drawn depends on it
  /// [num_local_workers] pointers to flat buffers [state_layout().flat_elements()], 64-byte aligned, in and out: each
  /// worker's own state. May be empty if the net has no state.
  std::span<float* const> states = {};
};

/// What one worker's slice gave.
struct WorkerLoss {
  double entropy_loss = 0;    // mean softmax cross-entropy of the logits over the slice, in nats
  int num_correct = 0;        // examples whose label has the largest logit
  double auxiliary_loss = 0;  // sum of the auxiliary losses times their weights; the gradient is of both losses' sum
};

/// What computes nets on the CPU: the library, its version, and the number that it gives to the instructions which it
/// uses here (DNNL_MAX_CPU_ISA bounds them). The bits of its results depend on all three.
std::string cpu_library();

/// Called when the gradient of `segment` of local worker `worker` is final, in the order in which the backward pass
/// ends them. Calls for one worker come in sequence; calls for different workers may come from different threads at
/// once.
using SegmentReady = std::function<void(int worker, int segment)>;

/// A classifier with a softmax cross-entropy loss, in training of several classifiers and with smoothed labels where
/// NetSpec says so. It holds no parameters: they live in one flat buffer that the caller
/// owns and passes in, laid out as `layout()` says; so do gradients, one flat buffer per local worker. What training
/// passes leave behind besides gradients, moving statistics, is state: also the caller's, one flat buffer per worker,
/// laid out as `state_layout()` says.
class Net {
 public:
  virtual ~Net() = default;

  virtual const std::string& name() const = 0;
  virtual const Layout& layout() const = 0;
  /// No segments if the net has no state.
  virtual const Layout& state_layout() const = 0;
  virtual ImageShape image_shape() const = 0;
  virtual int num_classes() const = 0;
  /// Where the spans below are, except for initial values and losses, which are in host memory.
  virtual Device device() const { return Device::cpu(); }
  /// Whether weight decay applies to this segment (biases never).
  virtual bool is_regularized(int segment) const = 0;
  /// Every segment once, in the order in which a worker's backward pass ends them: that of SegmentReady. By default the
  /// layout's, backwards.
  virtual std::vector<int> gradient_order() const;

  /// Writes the initial parameters: the draws depend on `seed` and the tensor only (DrawPurpose::kInitializer).
  /// @param parameters  [layout().flat_elements()] out; padding is set to zero
  virtual void initialize(std::uint64_t seed, std::span<float> parameters) const = 0;
  /// Writes the initial state. @param state  [state_layout().flat_elements()] out; padding is set to zero
  virtual void initialize_state(std::span<float> state) const = 0;

  /// Computes each local worker's gradient of its mean loss (weight decay not included), and moves its state on.
  /// @param parameters  [flat_elements]
  /// @param gradients   [num_local_workers] pointers to flat buffers [flat_elements], 64-byte aligned; every segment is
  ///                    overwritten, padding is left as it is. Different workers need different buffers
  /// @param losses      [num_local_workers] out
  /// @throws InvalidArgument for spans of other sizes, a step of 2^40 or more or a label outside [0, num_classes); an
  ///         exception of on_segment_ready is passed on. Gradients, losses and states are then undefined
  /// Bitwise repeatable for a fixed threads_per_worker; independent of num_local_workers. One call at a time.
  virtual void compute_gradients(std::span<const float> parameters, const TrainBatch& batch,
                                 std::span<float* const> gradients, std::span<WorkerLoss> losses,
                                 const SegmentReady& on_segment_ready = {}) = 0;

  /// Computes logits of `num_examples` images (any number; evaluation mode: nothing is dropped, moving statistics are
  /// used). An image's logits depend on it, the parameters and the state only: not on the images beside it, the workers
  /// or the threads.
  /// @param state  [state_layout().flat_elements()]: empty where there is none
  virtual void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
                       int num_examples, std::span<float> logits) = 0;
};

/// What can be chosen about a net that is known by name. Each net uses what it has.
struct NetConfig {
  float dropout_keep_prob = 0.5f;  // of every dropout layer; half as much in auxiliary classifiers
};

/// Names that net_spec and make_net accept.
std::vector<std::string> net_names();

/// The description of a net that is known by name. @throws InvalidArgument for an unknown name
NetSpec net_spec(const std::string& name, const NetConfig& config = {});

/// The tensors of the net that is known by this name, on the images that it is meant for: 10 classes for the nets for
/// MNIST and CIFAR-10, 1001 for those for ImageNet. @throws InvalidArgument for an unknown name
Layout net_layout(const std::string& name);

/// Creates a net for images of `shape` and `num_classes` classes: of a description of your own, or by name.
/// @throws InvalidArgument for an unknown name, a description that plan_net (net_plan.h) refuses, an image shape the
/// net
///         cannot take, or impossible options; NotSupported if the backend cannot run a layer
std::unique_ptr<Net> make_net(const NetSpec& spec, const ImageShape& shape, int num_classes, const NetOptions& options);
std::unique_ptr<Net> make_net(const std::string& name, const ImageShape& shape, int num_classes,
                              const NetOptions& options, const NetConfig& config = {});

}  // namespace terngrad
