// ReLU helpers: the forward pass is fused into the preceding layer.
#pragma once

#include <string>

#include "nets/cpu/dnnl_utils.h"

namespace terngrad::cpu {

/// Default attributes plus a ReLU as a post-operation.
dnnl::primitive_attr relu_attributes();

/// Derivative of ReLU from its output: sets gradient[i] to 0 where output[i] <= 0, in place.
class ReluGradient {
 public:
  ReluGradient() = default;
  /// @param desc  descriptor of the output and of its gradient
  ReluGradient(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& desc);
  void run(const float* output, float* gradient);

 private:
  Operation operation_;
};

}  // namespace terngrad::cpu
