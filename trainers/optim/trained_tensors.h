// TrainedTensors: the tensors of a layout that are trained, where others are frozen.
#pragma once

#include <span>
#include <vector>

#include "compress/exchange/bucket_plan.h"
#include "kernels/tensor/layout.h"
#include "trainers/optim/flat_range.h"

namespace terngrad {

/// A frozen tensor keeps its value: its gradient is neither transformed nor exchanged, its memories and the optimizer's
/// slots stay as they are.
class TrainedTensors {
 public:
  /// Nothing is frozen.
  explicit TrainedTensors(const Layout& layout) : TrainedTensors(layout, {}) {}
  /// @param frozen  one flag per tensor, or empty. @throws InvalidArgument if all are frozen
  TrainedTensors(const Layout& layout, std::vector<bool> frozen);

  bool has_frozen() const { return !frozen_ranges_.empty(); }
  /// The elements of all tensors.
  const FlatRange& whole() const { return whole_; }
  bool is_frozen(int segment) const { return !frozen_.empty() && frozen_[static_cast<std::size_t>(segment)]; }
  const std::vector<bool>& frozen() const { return frozen_; }
  /// Ranges that hold exactly the trained tensors; the whole range if none is frozen.
  std::span<const FlatRange> ranges() const { return ranges_; }
  /// Ranges that hold exactly the frozen tensors.
  std::span<const FlatRange> frozen_ranges() const { return frozen_ranges_; }
  /// The buckets without frozen tensors, and without those that have no others.
  Buckets of(const Buckets& buckets) const;

 private:
  FlatRange whole_;
  std::vector<bool> frozen_;
  std::vector<FlatRange> ranges_;
  std::vector<FlatRange> frozen_ranges_;
};

}  // namespace terngrad
