// The MNIST data set of handwritten digits (LeCun, Cortes, Burges, 1998).
#pragma once

#include <memory>
#include <string>

#include "datasets/dataset.h"
#include "datasets/sets/grey_images.h"

namespace terngrad {

/// Opens train-images-idx3-ubyte and train-labels-idx1-ubyte (test subset: t10k-...) in `options.data_dir`, plain or
/// with .gz or .xz, and keeps them in memory. Images are 28 x 28, preprocessed as GreyImages says. Sets in the same
/// format (Fashion-MNIST) can be read too: 28 x 28 pixels, 10 classes, any number of examples. If the folder has shards
/// of records (find_shards), they are read instead: grey images of 28 x 28 with labels 0 to 9.
/// @throws InvalidArgument for an empty data_dir or an invalid image_size; DataError if a file is missing or damaged,
/// images are not 28 x 28 or the files have different numbers of examples
std::unique_ptr<Dataset> make_mnist(const DatasetOptions& options);

/// The images and labels of the files above without preprocessing. @throws DataError as make_mnist
GreyPixels read_mnist(const std::string& data_dir, Subset subset);

}  // namespace terngrad
