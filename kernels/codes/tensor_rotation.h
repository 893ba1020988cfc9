// TensorRotation: rotates the gradients of a group of tensors, and rotates decoded results back.
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

/// Holds one rotated gradient per local worker, and rotations (kernels/codes/rotate.h) with separate task tables for
/// each use, so that steps after the first can be captured into a CUDA graph.
class TensorRotation {
 public:
  /// @param layout       must outlive the object
  /// @param segments     tensors to rotate
  /// @param num_workers  number of local workers
  TensorRotation(std::int64_t run_elements, const Layout& layout, std::span<const int> segments, int num_workers,
                 std::uint64_t seed, Device device, TailRotation tails = TailRotation::kOnce);

  /// Rotates the workers' gradients, of any element type. @param gradients  [num_workers]
  void rotate(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream);
  /// [num_workers] result of rotate, float32; null for tensors of other segments.
  std::span<const TensorTable> rotated() const { return tables_; }
  /// Step of the last rotate; a copy in device memory if it was given there.
  DeviceStep step() const { return step_; }

  /// Rotates slices of these tensors back, in place; ignores slices of other tensors. @param values  float32
  void turn_back(const TensorTable& values, std::span<const Slice> slices, const DeviceStep& step, Stream& stream);
  /// Rotates results of the last rotate's step back, in place. @param values  elements of each slice
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
