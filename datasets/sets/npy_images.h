// The data set `npy`: a user's own images and labels in NumPy arrays.
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
/// Most classes that labels alone may make where there are fewer examples than classes.
inline constexpr int kMaxUnnamedClasses = 1 << 16;

/// The labels in an array of any integer type, [num_examples].
/// @param file  name for messages
/// @throws DataError, naming file, example, expected and found, if the array is empty or no such array, or a label is
/// not in [0, kMaxArrayClasses)
std::vector<std::int32_t> read_npy_labels(const std::string& file, const NpyArray& array);

/// Opens train_images.npy and train_labels.npy (test subset: test_...) in `options.data_dir`, plain or with .gz or .xz,
/// and keeps them in memory.
///
/// Images are [n, height, width, channels], or [n, height, width] for one channel, of bytes (uint8) or float32. A byte
/// x is read as (x / 255 - 0.5) * 2, in [-1, 1]; floats are taken as they are. Both are cropped or padded about the
/// centre to `options.image_size` (0 = as they are), with x = 0 and 0.0 at the padded places, as GreyImages does.
/// Nothing is drawn: training and test subsets are read alike.
///
/// The number of classes is 1 + the largest label of both subsets; so the label files of both must be there. Where a
/// class may be missing from both, a text file classes.txt with one name a line says how many there are. Without it,
/// more than kMaxUnnamedClasses that are also more than the examples of both subsets are taken for a damaged label.
/// @throws InvalidArgument if data_dir is empty or image_size is bad; DataError, naming the file, for a file that is
/// missing or damaged, an array of another type or shape, one that looks like [n, channels, height, width] (dimension 1
/// is 1, 3 or 4, the last is above 4), values that are no finite numbers, different numbers of
/// images and labels, or a label beyond classes.txt
std::unique_ptr<Dataset> make_npy_images(const DatasetOptions& options);

}  // namespace terngrad
