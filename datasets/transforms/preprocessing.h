// Preprocessing: conversion of stored images to the input of ImageNet nets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/transforms/stored_image.h"

namespace terngrad {

inline constexpr int kMinPreprocessedSize = 8;
inline constexpr int kMaxPreprocessedSize = 512;

/// Converts a stored image to a net's input. Thread-safe. Equal calls give equal bits on every machine with the same
/// libjpeg results.
class Preprocessing {
 public:
  virtual ~Preprocessing() = default;

  /// True if run() depends on the visit: for training subsets.
  virtual bool is_augmented() const = 0;

  /// @param visit, index  key of the draws (datasets/transforms/image_draws.h), if is_augmented()
  /// @param square        [size, size, 3] out: red, green, blue
  /// @throws DataError, with the image's name, for data that are not an image or are damaged, and for invalid bounding
  /// boxes; InvalidArgument for a square of another size, and, if is_augmented(), an index of 2^41 or more or an epoch
  /// of more than 40 bits
  virtual void run(const StoredImage& image, const ExampleVisit& visit, std::int64_t index,
                   std::span<float> square) const = 0;
};

/// Creates a preprocessing by name. With p a pixel in 0 to 255 and x = p / 255:
///   name       training                                            evaluation            result
///   alexnet    all to 256 x 256; crop; flip                        the middle            p - mean
///   vgg        shorter side to 256..512; crop; flip                256; the middle       p - mean
///   inception  sampled box to size x size by one of four methods;  the middle 87.5 % of  2 (x - 1/2)
///              flip; colours; clamped to [0, 1]                    each side, bilinear
///   standard   shorter side to 256 / 224 of size, antialiased;     the middle            2 (x - 1/2)
///              crop; flip
///   torchvision  as standard                                                             (x - mean) / deviation
/// The means are 123.68, 116.78 and 103.94. The first three are those of TensorFlow's models, used to train TernGrad's
/// ImageNet nets; standard has the crop of He et al. and torchvision for evaluation, and random crops for training;
/// torchvision also has the means and deviations of its pretrained nets. See
/// crop_preprocessing.h and inception_preprocessing.h.
/// @param name  alexnet, vgg, inception, standard or torchvision
/// @param size  side of the result: kMinPreprocessedSize to kMaxPreprocessedSize, for alexnet and vgg up to 256
/// @throws InvalidArgument for another name or size
std::unique_ptr<Preprocessing> make_preprocessing(const std::string& name, Subset subset, int size);

/// Names that make_preprocessing accepts.
std::vector<std::string> image_preprocessing_names();

}  // namespace terngrad
