// SharedState: what an exchange keeps from step to step that is equal on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compress/plan/exchange_choices.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

class CodecPlan;

/// Under the name of each tensor that has such a state; zeros before the first step:
///
///   low-rank tensors with a warm start (LowRankForm)   factor Q of the last settled step, as Q^T [r', m]; a column of
///                                                      zeros is replaced by random values at its next use
///   with MemoryKind::kEf21, tensors with lossy codecs  mean of the workers' estimates, in the tensor's shape
///
/// Equal on all ranks for any buckets; part of a checkpoint.
class SharedState {
 public:
  /// @param plan  of all tensors of the layout
  SharedState(const Layout& layout, const CodecPlan& plan, MemoryKind memory, const Device& device = Device::cpu());

  /// Layout of the state; empty if no tensor has any.
  const Layout& layout() const { return layout_; }
  /// The device whose memory holds the state.
  const Device& device() const { return device_; }
  /// [layout().flat_elements()]
  std::span<float> values() { return values_.span(); }
  /// A tensor's state; null if it has none.
  float* find(const std::string& tensor);

 private:
  Device device_;
  Layout layout_;
  Buffer<float> values_;
};

}  // namespace terngrad
