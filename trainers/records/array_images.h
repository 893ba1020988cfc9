// Image sources from files of MNIST, CIFAR-10 and NumPy arrays, encoded as PNG.
#pragma once

#include <string>

#include "trainers/records/image_source.h"

namespace terngrad {

/// The images of MNIST's or CIFAR-10's own files in `folder` (make_mnist, make_cifar10), grey or in colour, in the
/// order of the files. Lossless: images read from the records are bit-identical to those of the files.
/// @throws DataError if a file is missing or damaged
ImageSources mnist_images(const std::string& folder);
ImageSources cifar10_images(const std::string& folder);

/// train_images.npy, train_labels.npy and test_..., as the data set `npy` has them (make_npy_images), but bytes only:
/// [n, height, width] or [n, height, width, 1 or 3]. One subset may be missing.
/// @throws DataError naming the file if it is missing, damaged, or has another type or shape
ImageSources npy_images(const std::string& folder);

}  // namespace terngrad
