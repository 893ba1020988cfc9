// The CIFAR-10 data set (Krizhevsky, "Learning multiple layers of features from tiny images", 2009), binary version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "datasets/dataset.h"

namespace terngrad {

inline constexpr int kCifar10ImageSize = 32;  // height and width of a stored image
inline constexpr int kCifar10CropSize = 24;   // of the image a net takes by default
inline constexpr int kCifar10Classes = 10;
inline constexpr std::int64_t kCifar10FileRecords = 10'000;
inline constexpr int kCifar10Border = 4;  // of `padded`
/// Of p / 255 over the 50,000 training images: red, green, blue.
inline constexpr std::array<double, 3> kCifar10Means = {0.4913996803, 0.4821582669, 0.4465307801};
inline constexpr std::array<double, 3> kCifar10Deviations = {0.2470296997, 0.2434844713, 0.2615867467};
/// One label byte, then 32 x 32 red, as many green, as many blue bytes, each row by row.
inline constexpr std::size_t kCifar10RecordBytes = 1 + 3 * kCifar10ImageSize * kCifar10ImageSize;

/// Checks the content of a file of `num_records` records.
/// @param file  name for messages
/// @throws DataError, naming file, expected and found, for another length and for a label above 9 (naming the record)
void check_cifar10_records(const std::string& file, std::span<const std::uint8_t> bytes, std::int64_t num_records);

/// Opens data_batch_1.bin to data_batch_5.bin (test subset: test_batch.bin), plain or with .gz or .xz, in the subfolder
/// cifar-10-batches-bin of `options.data_dir` if there is one, else in data_dir itself. Files are unpacked in parallel
/// by `options.num_threads` threads and kept in memory as they are (154 MB for training). A data_dir with shards of
/// records (find_shards) is read instead if it has them: images of 32 x 32 with labels 0 to 9, of any number; with
/// those of the files in their order every image has the same bits.
///
/// read() gives a window of `options.image_size` (0 = 24, at most 32) of the image, standardized as standardize_crop
/// does: for training at a random place, flipped and with a contrast as draw_augmentation says; for testing the middle
/// (rows and columns 4 to 27 for 24), as it is.
///
/// With options.preprocessing `padded` the window, of image_size 0 = 32, is one of the image with a border of 4 on
/// every side, at most 40: padded_crop with the mean and deviation of the training set; for training at a random place
/// and flipped as draw_augmentation says, for testing the middle.
/// @throws InvalidArgument if data_dir is empty, or for a bad image_size, preprocessing or num_threads; DataError if a
/// file is missing or damaged
std::unique_ptr<Dataset> make_cifar10(const DatasetOptions& options);

}  // namespace terngrad
