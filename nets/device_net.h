// DeviceNet: a Net in a GPU's memory, whose passes are submitted to a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"
#include "nets/math_mode.h"
#include "nets/net.h"
#include "nets/worker_buffers.h"

namespace terngrad {

/// The training examples of this process's workers, as TrainBatch, in device memory.
struct DeviceBatch {
  const float* images = nullptr;         // [num_local_workers * examples_per_worker, height, width, channels]
  const std::int32_t* labels = nullptr;  // [num_local_workers * examples_per_worker]; one that is not in
                                         // [0, num_classes) makes its worker's loss NaN
  DeviceStep step = {};                  // below 2^40
  WorkerBuffers<float> states = {};      // each worker's own state, in and out; nothing if the net has none
};

/// Called when all that makes the gradient of `segment` has been submitted, of all local workers: what the net's stream
/// is given from then on finds it final, and the rest of the pass comes after that in the stream. In the order of
/// Net::gradient_order.
using SegmentSubmitted = std::function<void(int segment)>;

/// A Net whose parameters, states, images, labels, gradients and logits are in a GPU's memory; only initial values and,
/// where the calls of Net are used, losses are host memory. Addresses are aligned as the calls below say. Those calls
/// wait for the device, take gradients and states that lie at equal distances, and announce segments when all are done.
/// The calls below only submit work to the stream the net was made for: having run once, they allocate nothing, so they
/// can be captured into a CUDA graph. Gradients are bitwise repeatable, and those of a worker do not depend on how many
/// there are.
class DeviceNet : public Net {
 public:
  /// The stream that the net works on.
  virtual Stream& stream() = 0;
  Device device() const override = 0;
  /// For people: what was found out about this GPU when the net was made, such as layers that need a call per worker.
  virtual std::vector<std::string> notes() const = 0;

  /// As Net::compute_gradients.
  /// @param parameters  [layout().flat_elements()], 64-byte aligned
  /// @param batch       images 16-byte aligned
  /// @param gradients   of each local worker, [layout().flat_elements()], 64-byte aligned; padding is left as it is
  /// @param losses      [num_local_workers] out, in device memory
  /// @throws what on_segment throws; the rest of the pass is then not submitted
  virtual void submit_gradients(const float* parameters, const DeviceBatch& batch, WorkerBuffers<float> gradients,
                                WorkerLoss* losses, const SegmentSubmitted& on_segment = {}) = 0;

  /// As Net::predict.
  /// @param parameters  [layout().flat_elements()], 64-byte aligned
  /// @param state       [state_layout().flat_elements()]; not read if the net has none
  /// @param images      [num_examples, height, width, channels], 16-byte aligned
  /// @param logits      [num_examples, num_classes] out
  virtual void submit_predict(const float* parameters, const float* state, const float* images, int num_examples,
                              float* logits) = 0;
};

/// Why make_device_net cannot be used in this build; empty if it can.
std::string device_nets_unavailable_reason();

/// Which library that computes them this machine lacks, and what to install; empty if it lacks none, and in a build
/// without. Loads them, which takes a tenth of a second: ask where there is a GPU.
std::string device_net_libraries_unavailable_reason();

/// The libraries that compute them and their versions, human-readable: bits depend on them. Empty in a build without.
/// @throws NotSupported if the machine lacks one
std::string device_net_libraries();

/// The same where none of them need be there: what is loaded when a GPU is chosen has its major version only.
std::string device_net_libraries_of_build();

/// Makes a net on the stream's GPU.
/// @param options  threads have no meaning here
/// @throws InvalidArgument as make_net; NotSupported if the build has no cuDNN, the machine lacks a library, the stream
/// is none of a GPU, or a library has no deterministic way to run a layer
std::unique_ptr<DeviceNet> make_device_net(const NetSpec& spec, const ImageShape& shape, int num_classes,
                                           const NetOptions& options, MathMode math, const Stream& stream);
std::unique_ptr<DeviceNet> make_device_net(const std::string& name, const ImageShape& shape, int num_classes,
                                           const NetOptions& options, MathMode math, const Stream& stream,
                                           const NetConfig& config = {});

}  // namespace terngrad
