// DeviceNet: a Net in GPU memory, whose passes are submitted to a stream.
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
  const float* images = nullptr;  // [num_local_workers * examples_per_worker, height, width, channels]
  /// [num_local_workers * examples_per_worker]. A label outside [0, num_classes) makes its worker's loss NaN.
  const std::int32_t* labels = nullptr;
  DeviceStep step = {};              // below 2^40
  WorkerBuffers<float> states = {};  // each worker's own state, in and out; empty if the net has none
};

/// Called when all work for the gradients of `segment` has been submitted, for all local workers: work submitted to the
/// net's stream in or after the call finds them final. Called in the order of Net::gradient_order.
using SegmentSubmitted = std::function<void(int segment)>;

/// A Net whose parameters, states, images, labels, gradients and logits are in GPU memory, aligned as the calls below
/// say. Calls inherited from Net wait for the device, write losses to host memory, take gradients and states at equal
/// distances, and report segments when all are done. The calls below only submit work to the net's stream; after the
/// first run they allocate nothing, so they can be captured into a CUDA graph. Gradients are bitwise repeatable, and a
/// worker's do not depend on the number of workers. Initial values are written to host memory.
class DeviceNet : public Net {
 public:
  /// The stream that the net submits to.
  virtual Stream& stream() = 0;
  Device device() const override = 0;
  /// Human-readable notes from constructing the net on this GPU, such as layers that need a library call per worker.
  virtual std::vector<std::string> notes() const = 0;

  /// As Net::compute_gradients.
  /// @param parameters  [layout().flat_elements()], 64-byte aligned
  /// @param batch       images 16-byte aligned
  /// @param gradients   out, per local worker [layout().flat_elements()], 64-byte aligned; padding is not written
  /// @param losses      [num_local_workers] out, in device memory
  /// @throws any exception of on_segment; the rest of the pass is then not submitted
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

/// The reason why make_device_net cannot be used in this build; empty if it can.
std::string device_nets_unavailable_reason();

/// Names a library (cuDNN, cuBLASLt) that this machine lacks, and what to install; empty if all load, and in builds
/// without CUDA nets. Loads the libraries, which takes 0.1 s: call it only if there is a GPU.
std::string device_net_libraries_unavailable_reason();

/// Names and versions of the libraries that compute device nets, on which bits depend; human-readable, empty in builds
/// without CUDA nets. @throws NotSupported if the machine lacks one
std::string device_net_libraries();

/// The same without loading libraries: those loaded at run time are given with their major version only.
std::string device_net_libraries_of_build();

/// Makes a net on the stream's GPU.
/// @param options  thread counts are ignored
/// @throws InvalidArgument as make_net; NotSupported if the build has no cuDNN, the machine lacks a library, the stream
/// is not a GPU's, NetOptions::loss is set, or a library has no deterministic algorithm for a layer
std::unique_ptr<DeviceNet> make_device_net(const NetSpec& spec, const ImageShape& shape, int num_classes,
                                           const NetOptions& options, MathMode math, const Stream& stream);
std::unique_ptr<DeviceNet> make_device_net(const std::string& name, const ImageShape& shape, int num_classes,
                                           const NetOptions& options, MathMode math, const Stream& stream,
                                           const NetConfig& config = {});

}  // namespace terngrad
