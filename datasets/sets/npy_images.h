// The data set `npy`: the user's images and labels in NumPy arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/formats/npy.h"

namespace terngrad {

inline constexpr int kMaxArrayClasses = 1 << 20;
/// Maximum number of classes derived from labels if there are fewer examples than classes.
inline constexpr int kMaxUnnamedClasses = 1 << 16;

/// Labels from an array [num_examples] of any integer type.
/// @param file  name for messages
/// @throws DataError, naming file, example, expected and found value, for an empty array, an array of another type or
/// shape, or a label outside [0, kMaxArrayClasses)
std::vector<std::int32_t> read_npy_labels(const std::string& file, const NpyArray& array);

/// Opens train_images.npy and train_labels.npy (test subset: test_...) in `options.data_dir`, plain or with .gz or .xz,
/// and keeps them in memory.
///
/// Images are [n, height, width, channels], or [n, height, width] for one channel, of uint8 or float32. A byte x
/// becomes (x / 255 - 0.5) * 2, in [-1, 1]; floats are unchanged. Both are cropped or padded (x = 0, or 0.0) about the
/// centre to `options.image_size` (0 = unchanged), as in GreyImages. No augmentation: training and test images are read
/// alike.
///
/// The number of classes is the number of lines in the text file classes.txt (one class name per line), which is needed
/// if a class occurs in neither subset. Without it the number is 1 + the largest label of both subsets, whose label
/// files must both exist; more classes than kMaxUnnamedClasses and than examples in both subsets count as a damaged
/// label.
/// @throws InvalidArgument for an empty data_dir or an invalid image_size; DataError, naming the file, for a file that
/// is missing or damaged, an array of another type or shape, an array that looks like [n, channels, height, width]
/// (dimension 1 is 1, 3 or 4, the last is above 4), nonfinite values, different numbers of images and labels, or a
/// label that classes.txt does not name
std::unique_ptr<Dataset> make_npy_images(const DatasetOptions& options);

}  // namespace terngrad
