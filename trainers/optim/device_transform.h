// DeviceTransform: what happens to workers' gradients in a GPU's memory before they are encoded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/exchange/on_nonfinite.h"
#include "kernels/runtime/device.h"
#include "nets/net.h"
#include "nets/worker_buffers.h"
#include "trainers/optim/step_counters.h"

namespace terngrad {

/// The gradients of a GPU's workers: flat buffers at equal distances in one allocation, padding set to zero.
struct DeviceGradients {
  WorkerBuffers<float> buffers;
  int num_workers = 0;
};

/// Elements [first, first + count) of a flat buffer: whole tensors, each with the padding behind it.
struct FlatRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

/// All of a flat buffer.
FlatRange whole_range(const Layout& layout);
/// The ranges that hold these tensors and no others, as few as there can be.
/// @param segments  in order
std::vector<FlatRange> ranges_of(const Layout& layout, std::span<const int> segments);

/// GradientTransform for all workers of a GPU at once, with the same bits. Calls only submit work, and can be captured
/// into a CUDA graph once they have run.
class DeviceTransform {
 public:
  virtual ~DeviceTransform() = default;
  virtual std::string name() const = 0;
  /// As GradientTransform::is_per_tensor: whether `submit` takes parts.
  virtual bool is_per_tensor() const = 0;
  /// @param parameters  [flat elements]
  /// @param range       whose gradients are changed: whole_range, or one of tensors, each of which is to come once
  /// @param counters    [1] what is changed is added
  virtual void submit(const float* parameters, const DeviceGradients& gradients, const FlatRange& range,
                      cuda::StepCounters* counters, Stream& stream) = 0;
};

/// make_nan_to_zero on a GPU.
std::unique_ptr<DeviceTransform> make_device_nan_to_zero();
/// make_weight_decay on a GPU.
std::unique_ptr<DeviceTransform> make_device_weight_decay(const Net& net, double decay, const Device& device);
/// make_clip_by_global_norm on a GPU. @throws InvalidArgument if max_norm is not above 0
std::unique_ptr<DeviceTransform> make_device_clip_by_global_norm(const Layout& layout, double max_norm,
                                                                 int num_local_workers, OnNonfinite on_nonfinite,
                                                                 const Device& device);

}  // namespace terngrad
