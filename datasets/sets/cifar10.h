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
inline constexpr int kCifar10CropSize = 24;   // default height and width of the net's input
inline constexpr int kCifar10Classes = 10;
inline constexpr std::int64_t kCifar10FileRecords = 10'000;
inline constexpr int kCifar10Border = 4;  // border of the preprocessing `padded`
/// Means and deviations of p / 255 over the 50,000 training images: red, green, blue.
inline constexpr std::array<double, 3> kCifar10Means = {0.4913996803, 0.4821582669, 0.4465307801};
inline constexpr std::array<double, 3> kCifar10Deviations = {0.2470296997, 0.2434844713, 0.2615867467};
/// One label byte, then 32 x 32 red, as many green, as many blue bytes, each row by row.
inline constexpr std::size_t kCifar10RecordBytes = 1 + 3 * kCifar10ImageSize * kCifar10ImageSize;

/// Checks the content of a file with `num_records` records.
/// @param file  name for messages
/// @throws DataError, naming file, expected and found value, for another length and (naming the record) a label above 9
void check_cifar10_records(const std::string& file, std::span<const std::uint8_t> bytes, std::int64_t num_records);

/// Opens data_batch_1.bin to data_batch_5.bin (test subset: test_batch.bin), plain or with .gz or .xz, in the subfolder
/// cifar-10-batches-bin of `options.data_dir` if it exists, else in data_dir itself. Files are unpacked in parallel by
/// `options.num_threads` threads and kept in memory (154 MB for training). If data_dir has shards of records
/// (find_shards), they are read instead: any number of images of 32 x 32 with labels 0 to 9. Records with the files'
/// images in the same order give the same bits.
///
/// read() gives a window of `options.image_size` (0 = 24, at most 32), standardized by standardize_crop: for training
/// with random place, flip and contrast from draw_augmentation; for testing the unchanged centre window (rows and
/// columns 4 to 27 for 24).
///
/// With options.preprocessing `padded` the window (image_size 0 = 32, at most 40) is taken from the image with a border
/// of 4 on every side, by padded_crop with the mean and deviation of the training set: for training with random place
/// and flip from draw_augmentation, for testing from the centre.
/// @throws InvalidArgument for an empty data_dir or an invalid image_size, preprocessing or num_threads; DataError if a
/// file is missing or damaged
std::unique_ptr<Dataset> make_cifar10(const DatasetOptions& options);

}  // namespace terngrad
