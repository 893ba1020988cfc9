// Preprocessings that resize an image and crop a square: alexnet, vgg, standard, torchvision.
#pragma once

#include <array>
#include <memory>

#include "datasets/transforms/preprocessing.h"

namespace terngrad {

inline constexpr int kResizedSide = 256;
inline constexpr int kMaxVggSide = 512;
/// Means of red, green and blue over ImageNet.
inline constexpr std::array kImageNetMeans = {123.68f, 116.78f, 103.94f};
/// Means and deviations of red, green and blue of torchvision's pretrained nets, as fractions of 255.
inline constexpr std::array kTorchvisionMeans = {0.485f, 0.456f, 0.406f};
inline constexpr std::array kTorchvisionDeviations = {0.229f, 0.224f, 0.225f};

// Training: a size x size crop of the resized image at a uniform random offset (image_draws.h: top and left of attempt
// 0), flipped with probability 1/2. Evaluation: the centre crop (odd row or column at the end), without draws. Only
// pixels that the crop needs are decoded and resized.

/// Resizes to 256 x 256 whatever the aspect ratio, ResizeMethod::kBilinear; p - kImageNetMeans.
/// @param size  up to kResizedSide
std::unique_ptr<Preprocessing> make_alexnet_preprocessing(Subset subset, int size);

/// Resizes the shorter side to S, uniform in [kResizedSide, kMaxVggSide] for training, kResizedSide for evaluation,
/// and the longer side to floor(longer * S / shorter); ResizeMethod::kBilinear; p - kImageNetMeans.
/// @param size  up to kResizedSide
std::unique_ptr<Preprocessing> make_vgg_preprocessing(Subset subset, int size);

/// Resizes the shorter side to 256 / 224 of size, rounded to nearest, the longer as above; kAntialiased;
/// (p / 255 - 0.5) * 2.
std::unique_ptr<Preprocessing> make_standard_preprocessing(Subset subset, int size);

/// As standard, but (p / 255 - kTorchvisionMeans) / kTorchvisionDeviations.
std::unique_ptr<Preprocessing> make_torchvision_preprocessing(Subset subset, int size);

}  // namespace terngrad
