// ReLU: fused into the layer before it in the forward pass, so only its parts are here.
#pragma once

#include <string>

#include "nets/cpu/dnnl_utils.h"

namespace terngrad::cpu {

/// Default attributes, with max(x, 0) applied to every output.
dnnl::primitive_attr relu_attributes();

/// Sets gradient[i] to 0 where output[i] <= 0, in place: the derivative of ReLU, from its output.
class ReluGradient {
 public:
  ReluGradient() = default;
  /// @param desc  of the output and of its gradient
  ReluGradient(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& desc);
  void run(const float* output, float* gradient);

 private:
  Operation operation_;
};

}  // namespace terngrad::cpu
