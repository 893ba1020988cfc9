// TensorRotation: the rotated gradients of a group of tensors, and turning back what was made of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codes/rotate.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Memory for one rotated gradient of each local worker, taken once, and rotations (kernels/codes/rotate.h) with the
/// tables of each use kept apart, so that a step after the first can be captured into a graph.
class TensorRotation {
 public:
  /// @param layout       outlives the object
  /// @param segments     the tensors that are rotated
  /// @param num_workers  whose gradients rotate takes
  TensorRotation(std::int64_t run_elements, const Layout& layout, std::span<const int> segments, int num_workers,
                 std::uint64_t seed, Device device);

  /// Rotates the workers' gradients, of any element type. @param gradients  [num_workers]
  void rotate(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream);
  /// [num_workers] what rotate has made, float32; tensors of other segments are null.
  std::span<const TensorTable> rotated() const { return tables_; }
  /// The step of the last rotate: on a GPU a copy of it, if the device had it.
  DeviceStep step() const { return step_; }

  /// Turns slices of these tensors back in place; those of others are left as they are. @param values  float32
  void turn_back(const TensorTable& values, std::span<const Slice> slices, const DeviceStep& step, Stream& stream);
  /// Turns back what came of the last rotate, in place. @param values  of each slice, its elements
  void turn_back(std::span<float* const> values, std::span<const Slice> slices, Stream& stream);

 private:
  RotateTask task_of(const Slice& slice, const void* values, ElementType type, float* out) const;
  void run_back(Rotator& rotator, const DeviceStep& step, Stream& stream);

  const Layout& layout_;
  std::vector<int> segments_;  // in order
  std::uint64_t seed_;
  Buffer<float> elements_;
  std::vector<TensorTable> tables_;
  DeviceStep step_;
  Buffer<std::uint64_t> step_on_device_;
  Rotator forward_, of_means_, of_slices_;
  std::vector<RotateTask> tasks_;
};

}  // namespace terngrad
