// Preprocessing that resizes a whole image and crops a square: alexnet, vgg, standard.
#pragma once

#include <array>
#include <memory>

#include "datasets/transforms/preprocessing.h"

namespace terngrad {

inline constexpr int kResizedSide = 256;
inline constexpr int kMaxVggSide = 512;
/// Of red, green and blue over ImageNet.
inline constexpr std::array kImageNetMeans = {123.68f, 116.78f, 103.94f};

// Each crops size x size of a resized image at an offset that is uniform on each axis (image_draws.h: top and left of
// attempt 0), flips it half of the time, and is evaluated with the crop in the middle (an odd rest at the end) without
// draws. Only the pixels that the crop is made of are decoded and resized.

/// Resized to 256 x 256 whatever the aspect, ResizeMethod::kBilinear; p - kImageNetMeans.
/// @param size  up to kResizedSide
std::unique_ptr<Preprocessing> make_alexnet_preprocessing(Subset subset, int size);

/// The shorter side becomes S, uniform in [kResizedSide, kMaxVggSide] for training, kResizedSide for evaluation; the
/// longer side floor(longer * S / shorter); ResizeMethod::kBilinear; p - kImageNetMeans.
/// @param size  up to kResizedSide
std::unique_ptr<Preprocessing> make_vgg_preprocessing(Subset subset, int size);

/// The shorter side becomes 256 / 224 of size, rounded to the nearest; the longer as above; kAntialiased;
/// (p / 255 - 0.5) * 2.
std::unique_ptr<Preprocessing> make_standard_preprocessing(Subset subset, int size);

}  // namespace terngrad
