// Resizing a decoded image: to the square input of a net, or as a whole.
#pragma once

#include <span>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

inline constexpr int kMaxResizedSide = 4096;

/// Resizes an image so that its shorter side is `size`, crops the centre square, and maps bytes to [-1, 1].
///
/// The longer side becomes floor(longer * size / shorter), with an odd row or column of the excess cropped at the end.
/// Bilinear with antialiasing: ResizeMethod::kAntialiased (datasets/transforms/resize_axis.h). A value v in 0 to 255
/// becomes (v / 255 - 0.5) * 2.
///
/// Correctly rounded IEEE operations in a fixed order: equal calls give equal bits on every machine.
/// @param square  [size, size, image.channels] out
/// @throws InvalidArgument unless size is in [1, kMaxResizedSide], the image has sides of 1 to kMaxImageSide pixels, 1
/// or 3 channels and the right number of pixels, and `square` has this size
void resize_to_square(const DecodedImage& image, int size, std::span<float> square);

/// Resizes an image so that its shorter side is `size` and its longer side floor(longer * size / shorter), by
/// ResizeMethod::kAntialiased, rounded to the nearest byte, half up. Equal calls give equal bytes on every machine.
/// @throws InvalidArgument as resize_to_square, and if the longer side would exceed kMaxImageSide
DecodedImage resize_shorter_side(const DecodedImage& image, int size);

}  // namespace terngrad
