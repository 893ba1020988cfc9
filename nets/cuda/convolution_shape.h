// ConvolutionShape: shape parameters of a convolution pass.
#pragma once

#include <string>

#include "nets/cuda/libraries.h"
#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cuda {

/// Images are [num_examples, height, width, channels]; filters [outputs, kernel height, kernel width, channels /
/// groups], the order that tensor cores need (the net's own tensors have outputs fastest).
struct ConvolutionShape {
  int num_examples = 1;
  ImageShape input;
  ImageShape output;
  ImagePadding padding;
  WindowSize kernel = 1;
  int stride = 1;
  int groups = 1;
  int alignment = kFullAlignment;  // alignment in bytes of all operands: a power of 2, at least 4
};

/// Operands and result of a convolution pass.
enum class ConvolutionDirection {
  kForward,         // (images, filters) -> outputs, without biases
  kInputGradient,   // (output gradient, filters) -> image gradient
  kFilterGradient,  // (images, output gradient) -> filter gradient, summed over the examples
};

/// Human-readable description.
std::string to_text(ConvolutionDirection direction, const ConvolutionShape& shape);

/// @throws InvalidArgument for an invalid shape
void require_shape(ConvolutionDirection direction, const ConvolutionShape& shape);

}  // namespace terngrad::cuda
