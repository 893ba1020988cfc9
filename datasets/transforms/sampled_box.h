// Random box of an image for the training of Inception.
#pragma once

#include <span>

#include "datasets/formats/decoded_image.h"
#include "datasets/formats/image_example.h"
#include "datasets/transforms/image_draws.h"

namespace terngrad {

inline constexpr int kBoxAttempts = 100;
inline constexpr double kMinBoxAspect = 0.75;  // width / height
inline constexpr double kMaxBoxAspect = 1.33;
inline constexpr int kMinBoxShare = 20;     // the box has at least 1 / 20 of the image's pixels
inline constexpr int kMinObjectShare = 10;  // and contains at least 1 / 10 of an object's pixels

/// Draws a box as TensorFlow's sample_distorted_bounding_box with Inception's arguments. For an image of H x W pixels,
/// A = H W, up to kBoxAttempts times (words of block 2 + attempt; in double, rounding to nearest, half to even):
///   aspect  a, uniform in [kMinBoxAspect, kMaxBoxAspect)
///   height  h, a uniform integer from round(sqrt(A / kMinBoxShare / a)) to the minimum of round(sqrt(A / a)), H and
///           the largest h with round(h a) <= W; the maximum if the range is empty
///   width   w = round(h a); if then h w is below A / kMinBoxShare one more row, if it is above A one row less
///   place   top uniform in [0, H - h), left in [0, W - w), or 0 if that is empty: the last offset is never drawn
/// An attempt fails if the area is still out of range, the box is larger than the image, or it contains less than
/// 1 / kMinObjectShare of every object's pixels. After the last attempt the box is the whole image. The height is
/// uniform, not the area, unlike in torchvision's RandomResizedCrop.
/// @param objects  converted to pixels: coordinates times sides, in float, rounded down; empty ones are ignored. If the
/// list is empty, the whole image is the object
ImageBox draw_sampled_box(int height, int width, std::span<const BoundingBox> objects, const ImageDraws& draws);

}  // namespace terngrad
