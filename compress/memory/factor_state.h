// FactorState: warm-start factors of low-rank tensors, equal on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

class CodecPlan;

/// For each low-rank tensor with a warm start (LowRankForm), the factor Q of the last settled step, stored as
/// Q^T [r', m] under the tensor's name; zeros before the first step. A column of zeros is replaced by random values at
/// its next use. Equal on all ranks for any buckets; part of a checkpoint.
class FactorState {
 public:
  /// @param plan  of all tensors of the layout
  FactorState(const Layout& layout, const CodecPlan& plan, const Device& device = Device::cpu());

  /// Layout of the factors; empty if no tensor has one.
  const Layout& layout() const { return factors_; }
  /// The device whose memory holds the factors.
  const Device& device() const { return device_; }
  /// [layout().flat_elements()]
  std::span<float> values() { return values_.span(); }
  /// A tensor's factor; null if it has none.
  float* find(const std::string& tensor);

 private:
  Device device_;
  Layout factors_;
  Buffer<float> values_;
};

}  // namespace terngrad
