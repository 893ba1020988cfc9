#include "nets/cuda/convolution_shape.h"

#include <array>
#include <cstddef>
#include <sstream>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

std::string to_text(ConvolutionDirection direction, const ConvolutionShape& shape) {
  constexpr std::array<const char*, 3> kNames = {"forward", "gradient of images", "gradient of filters"};
  const ImagePadding& padding = shape.padding;
  std::ostringstream text;
  text << "convolution (" << kNames[static_cast<std::size_t>(direction)] << ") of " << shape.num_examples << " images "
       << shape.input.height << " x " << shape.input.width << " x " << shape.input.channels << " to "
       << shape.output.height << " x " << shape.output.width << " x " << shape.output.channels << " with kernel "
       << shape.kernel.height << " x " << shape.kernel.width << ", stride " << shape.stride << ", " << shape.groups
       << " group(s), padding " << padding.top << " " << padding.bottom << " " << padding.left << " " << padding.right
       << " (top, bottom, left, right)";
  return text.str();
}

void require_shape(ConvolutionDirection direction, const ConvolutionShape& shape) {
  const auto is_positive = [](const ImageShape& image) {
    return image.height > 0 && image.width > 0 && image.channels > 0;
  };
  const ImagePadding& padding = shape.padding;
  const auto fits = [&](int input, int before, int after, int kernel, int output) {
    const int slack = input + before + after - kernel;
    return before >= 0 && after >= 0 && slack >= 0 && slack / shape.stride + 1 == output;
  };
  TERNGRAD_REQUIRE(
      shape.num_examples > 0 && shape.kernel.height > 0 && shape.kernel.width > 0 && shape.stride > 0 &&
          shape.groups > 0 && is_positive(shape.input) && is_positive(shape.output) &&
          shape.input.channels % shape.groups == 0 && shape.output.channels % shape.groups == 0 &&
          fits(shape.input.height, padding.top, padding.bottom, shape.kernel.height, shape.output.height) &&
          fits(shape.input.width, padding.left, padding.right, shape.kernel.width, shape.output.width),
      "[ConvolutionPass] no such ", to_text(direction, shape));
}

}  // namespace terngrad::cuda
