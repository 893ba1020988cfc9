// FactorState: the factors that all ranks keep alike from step to step.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

class CodecPlan;

/// For each tensor of low rank with a warm start (LowRankForm) the factor Q that the last settled step found, as
/// Q^T [r', m] under the tensor's name; zeros before the first. A column of zeros is drawn anew when it is next used.
/// Equal on all ranks, whatever the buckets; part of a checkpoint.
class FactorState {
 public:
  /// @param plan  of all tensors of the layout
  FactorState(const Layout& layout, const CodecPlan& plan, const Device& device = Device::cpu());

  /// The factors; without any where no tensor has one.
  const Layout& layout() const { return factors_; }
  /// The device in whose memory factors are.
  const Device& device() const { return device_; }
  /// [layout().flat_elements()]
  std::span<float> values() { return values_.span(); }
  /// A tensor's factor. @returns null where it has none
  float* find(const std::string& tensor);

 private:
  Device device_;
  Layout factors_;
  Buffer<float> values_;
};

}  // namespace terngrad
