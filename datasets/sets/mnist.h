// The MNIST data set of handwritten digits (LeCun, Cortes, Burges, 1998).
#pragma once

#include <memory>
#include <string>

#include "datasets/dataset.h"
#include "datasets/sets/grey_images.h"

namespace terngrad {

/// Opens train-images-idx3-ubyte and train-labels-idx1-ubyte (test subset: t10k-...) in `options.data_dir`, plain or
/// with .gz or .xz, and keeps them in memory. Images are 28 x 28; how they are preprocessed: see GreyImages. Other sets
/// in the same format (Fashion-MNIST) can be read too: 28 x 28 pixels, 10 classes, any number of examples. A folder
/// with shards of records (find_shards) is read instead if it has them: grey images of 28 x 28 with labels 0 to 9.
/// @throws InvalidArgument if data_dir is empty or image_size is bad; DataError if a file is missing or damaged, images
/// are not 28 x 28 or the files hold different numbers of examples
std::unique_ptr<Dataset> make_mnist(const DatasetOptions& options);

/// The images and labels of the files above as they are. @throws DataError as make_mnist
GreyPixels read_mnist(const std::string& data_dir, Subset subset);

}  // namespace terngrad
