// The part of an image that a training step of Inception sees.
#pragma once

#include <span>

#include "datasets/formats/decoded_image.h"
#include "datasets/formats/image_example.h"
#include "datasets/transforms/image_draws.h"

namespace terngrad {

inline constexpr int kBoxAttempts = 100;
inline constexpr double kMinBoxAspect = 0.75;  // width / height
inline constexpr double kMaxBoxAspect = 1.33;
inline constexpr int kMinBoxShare = 20;     // an image has at most that many times the box's pixels
inline constexpr int kMinObjectShare = 10;  // an object at most that many times those that the box shows of it

/// Draws a box: TensorFlow's sample_distorted_bounding_box as its Inception calls it. With the image's H, W and A = H
/// W, up to kBoxAttempts times (words of block 2 + attempt; rounding to the nearest, half to even; in double):
///   aspect  a, uniform in [kMinBoxAspect, kMaxBoxAspect)
///   height  h, uniform among the integers from round(sqrt(A / kMinBoxShare / a)) to the smallest of round(sqrt(A /
///   a)), H
///           and the largest h with round(h a) <= W; the last of these if the first is greater
///   width   w = round(h a); if then h w is below A / kMinBoxShare one row more, if it is above A one less
///   place   top uniform in [0, H - h), left in [0, W - w), or 0 where that is empty: the last offset never comes
/// An attempt fails if its area is still outside or it is larger than the image, or if of no object it shows at least
/// 1 / kMinObjectShare of the pixels. After the last the box is the whole image. Height is uniform, not area: this is
/// not torchvision's RandomResizedCrop.
/// @param objects  in pixels: coordinates times sides, in float, rounded down; those without pixels do not count. If
/// there are none at all the image is one
ImageBox draw_sampled_box(int height, int width, std::span<const BoundingBox> objects, const ImageDraws& draws);

}  // namespace terngrad
