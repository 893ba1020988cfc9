// Images in the files of MNIST, CIFAR-10 and NumPy arrays, which become PNG files.
#pragma once

#include <string>

#include "trainers/records/image_source.h"

namespace terngrad {

/// The images of MNIST's or CIFAR-10's own files in `folder` (make_mnist, make_cifar10), grey and in colour, in the
/// order of the files: without loss, so that images read from the records are bit-identical to those of the files.
/// @throws DataError if a file is missing or damaged
ImageSources mnist_images(const std::string& folder);
ImageSources cifar10_images(const std::string& folder);

/// train_images.npy, train_labels.npy and test_..., of which a subset may be missing, as the data set `npy` has them
/// (make_npy_images), but of bytes only: [n, height, width] or [n, height, width, 1 or 3].
/// @throws DataError, naming the file, if one is missing or damaged, or of another type or shape
ImageSources npy_images(const std::string& folder);

}  // namespace terngrad
