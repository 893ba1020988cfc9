// ConvolutionShape: what a pass of a convolution is made for.
#pragma once

#include <string>

#include "nets/cuda/libraries.h"
#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cuda {

/// Images are [num_examples, height, width, channels]; filters [outputs, kernel height, kernel width, channels /
/// groups], the order that tensor cores take (the net's own tensors have outputs fastest).
struct ConvolutionShape {
  int num_examples = 1;
  ImageShape input;
  ImageShape output;
  ImagePadding padding;
  WindowSize kernel = 1;
  int stride = 1;
  int groups = 1;
  int alignment = kFullAlignment;  // of every operand, in bytes: a power of 2, at least 4
};

enum class ConvolutionDirection {
  kForward,         // (images, filters) -> outputs, without biases
  kInputGradient,   // (gradient of outputs, filters) -> gradient of images
  kFilterGradient,  // (images, gradient of outputs) -> gradient of filters, summed over the examples
};

/// For people.
std::string to_text(ConvolutionDirection direction, const ConvolutionShape& shape);

/// @throws InvalidArgument if there is no convolution of such a shape
void require_shape(ConvolutionDirection direction, const ConvolutionShape& shape);

}  // namespace terngrad::cuda
