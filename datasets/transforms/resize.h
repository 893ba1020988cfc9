// Resizing a decoded image: to the square that a net takes, or as a whole.
#pragma once

#include <span>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

inline constexpr int kMaxResizedSide = 4096;

/// Resizes an image so that its shorter side is `size`, takes the square in the middle, and maps bytes to [-1, 1].
///
/// The longer side becomes floor(longer * size / shorter); half of what it is above `size` is cut off, the odd row or
/// column at the end. Bilinear with antialiasing: ResizeMethod::kAntialiased (datasets/transforms/resize_axis.h). A
/// value v of 0 to 255 becomes (v / 255 - 0.5) * 2.
///
/// Only IEEE operations that round correctly, in a fixed order: equal calls give equal bits on every machine.
/// @param square  [size, size, image.channels] out
/// @throws InvalidArgument unless size is in [1, kMaxResizedSide], the image has 1 to kMaxImageSide pixels a side, 1
/// or 3 channels, as many pixels as it says, and `square` has that many values
void resize_to_square(const DecodedImage& image, int size, std::span<float> square);

/// Resizes an image so that its shorter side is `size` and its longer floor(longer * size / shorter), by
/// ResizeMethod::kAntialiased, rounded to the nearest byte, half up. Equal calls give equal bytes on every machine.
/// @throws InvalidArgument for an image or a size as resize_to_square, or where the longer side would be above
/// kMaxImageSide
DecodedImage resize_shorter_side(const DecodedImage& image, int size);

}  // namespace terngrad
