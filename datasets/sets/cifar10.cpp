#include "datasets/sets/cifar10.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "datasets/formats/compressed_file.h"
#include "datasets/formats/file_kind.h"
#include "datasets/formats/input_file.h"
#include "datasets/records/record_store.h"
#include "datasets/records/shards.h"
#include "datasets/records/stored_pixels.h"
#include "datasets/transforms/augmentation.h"
#include "datasets/transforms/padded_crop.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

constexpr std::size_t kFileBytes = kCifar10FileRecords * kCifar10RecordBytes;
constexpr std::size_t kCifar100RecordBytes = kCifar10RecordBytes + 1;  // two labels
constexpr const char* kSubfolder = "cifar-10-batches-bin";

/// Base class with the files and their records; derived classes preprocess.
class Cifar10 : public Dataset {
 public:
  /// @param files  checked contents, kCifar10FileRecords records each, the last file may have fewer
  Cifar10(std::vector<std::vector<std::uint8_t>> files, bool is_augmented, int image_size)
      : files_(std::move(files)), is_augmented_(is_augmented), image_size_(image_size) {}

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override {
    const auto whole = static_cast<std::int64_t>(files_.size()) - 1;
    return whole * kCifar10FileRecords + static_cast<std::int64_t>(files_.back().size() / kCifar10RecordBytes);
  }
  int height() const override { return image_size_; }
  int width() const override { return image_size_; }
  int channels() const override { return kAugmentedChannels; }
  int num_classes() const override { return kCifar10Classes; }

  std::int32_t label(std::int64_t index) const override { return record(index)[0]; }

  bool is_augmented() const override { return is_augmented_; }

 protected:
  /// Draws a window with offsets up to max_offset; the centre window without augmentation.
  Augmentation augmentation_of(std::int64_t index, const ExampleVisit& visit, int max_offset) const {
    return is_augmented_ ? draw_augmentation(visit, index, max_offset)
                         : Augmentation{.top = max_offset / 2, .left = max_offset / 2};
  }
  std::span<const std::uint8_t> record(std::int64_t index) const {
    TERNGRAD_REQUIRE(index >= 0 && index < num_examples(), "[cifar10] example index must be in [0, ", num_examples(),
                     "), got ", index);
    return std::span(files_[static_cast<std::size_t>(index / kCifar10FileRecords)])
        .subspan(static_cast<std::size_t>(index % kCifar10FileRecords) * kCifar10RecordBytes, kCifar10RecordBytes);
  }

 private:
  std::string name_ = "cifar10";
  std::vector<std::vector<std::uint8_t>> files_;
  bool is_augmented_;
  int image_size_;
};

class DistortedCifar10 final : public Cifar10 {
 public:
  using Cifar10::Cifar10;

  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    standardize_crop(record(index).subspan(1), kCifar10ImageSize,
                     augmentation_of(index, visit, kCifar10ImageSize - height()), height(), image);
  }

  std::optional<CropSource> crop_source() const override {
    return CropSource{.source_size = kCifar10ImageSize,
                      .is_augmented = is_augmented(),
                      .planar = [this](std::int64_t index) { return record(index).subspan(1); }};
  }
};

class PaddedCifar10 final : public Cifar10 {
 public:
  using Cifar10::Cifar10;

  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    Augmentation augmentation = augmentation_of(index, visit, kCifar10ImageSize + 2 * kCifar10Border - height());
    augmentation.contrast = 1;
    padded_crop(record(index).subspan(1), kCifar10ImageSize, kCifar10Border, augmentation, tables_, height(), image);
  }

 private:
  ByteTables tables_ = make_byte_tables(kCifar10Means, kCifar10Deviations);
};

/// Advice for messages: how to get the files that `folder` lacks.
std::string advice(const std::filesystem::path& folder) {
  const auto holds = [&](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(folder / name, ignored);
  };
  if (holds("cifar-10-binary.tar.gz")) {
    const std::string text = folder.string();
    return "unpack what is there: tar -xzf '" + text + "/cifar-10-binary.tar.gz' -C '" + text + "'";
  }
  for (const char* name : {"cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1", "test_batch"}) {
    if (!holds(name)) continue;
    return "'" + std::string(name) + "' there is of the version for Python, but the binary version is read, " +
           "which scripts/download_data.sh cifar10 fetches";
  }
  for (const char* name : {"cifar-100-binary.tar.gz", "cifar-100-binary", "fine_label_names.txt"}) {
    if (holds(name)) return "'" + std::string(name) + "' there is of CIFAR-100, another data set";
  }
  return "scripts/download_data.sh cifar10 fetches them";
}

std::vector<std::filesystem::path> find_files(const std::string& data_dir, Subset subset) {
  std::filesystem::path folder = data_dir;
  if (is_folder(folder / kSubfolder)) folder /= kSubfolder;
  std::vector<std::string> names = {"test_batch.bin"};
  if (subset == Subset::kTrain) {
    names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
  }
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) {
    try {
      paths.push_back(find_data_file(folder, name));
    } catch (const MissingFileError& error) {
      TERNGRAD_THROW(DataError, "[cifar10] ", error.what(), "; ", advice(folder));
    }
  }
  return paths;
}

using Files = std::vector<std::vector<std::uint8_t>>;

Files read_files(const std::string& data_dir, Subset subset, int num_threads) {
  const std::vector<std::filesystem::path> paths = find_files(data_dir, subset);
  Files files(paths.size());
  parallel_for(num_threads, static_cast<std::int64_t>(paths.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      // The limit is above a file's size, and CIFAR-100's, so that the check for trailing bytes can say what is wrong.
      files[i] = read_data_file(paths[i], 6 * kFileBytes);
      check_cifar10_records(paths[i].string(), files[i], kCifar10FileRecords);
      files[i].shrink_to_fit();
    }
  });
  return files;
}

/// Reads records in the format of the set's own files.
Files read_record_files(const std::string& data_dir, Subset subset, int num_threads) {
  const RecordStore store(data_dir, subset, num_threads);
  Files files;
  for (std::size_t left = store.size(); left > 0; left -= files.back().size() / kCifar10RecordBytes) {
    files.emplace_back(std::min(left, static_cast<std::size_t>(kCifar10FileRecords)) * kCifar10RecordBytes);
  }
  read_stored_pixels(store, kCifar10ImageSize, kCifar10ImageSize, kAugmentedChannels, kCifar10Classes, num_threads,
                     [&](std::size_t record, std::int32_t label, const DecodedImage& image) {
                       std::uint8_t* out = files[record / kCifar10FileRecords].data() +
                                           record % kCifar10FileRecords * kCifar10RecordBytes;
                       *out++ = static_cast<std::uint8_t>(label);
                       for (std::size_t c = 0; c < kAugmentedChannels; ++c) {
                         for (std::size_t i = c; i < image.pixels.size(); i += kAugmentedChannels) {
                           *out++ = image.pixels[i];
                         }
                       }
                     });
  return files;
}

}  // namespace

void check_cifar10_records(const std::string& file, std::span<const std::uint8_t> bytes, std::int64_t num_records) {
  const std::size_t expected = static_cast<std::size_t>(num_records) * kCifar10RecordBytes;
  if (bytes.size() != expected) {
    TERNGRAD_THROW(DataError, "[cifar10] '", file,
                   bytes.size() < expected ? "' is truncated: " : "' has trailing bytes: ", "expected ", num_records,
                   " records of ", kCifar10RecordBytes, " bytes, which are ", expected, " bytes, found ", bytes.size(),
                   bytes.size() % kCifar100RecordBytes == 0 ? "; CIFAR-100 has such files, of 3074 bytes a record" : "",
                   looks_like(bytes));
  }
  for (std::int64_t i = 0; i < num_records; ++i) {
    const int label = bytes[static_cast<std::size_t>(i) * kCifar10RecordBytes];
    if (label >= kCifar10Classes) {
      TERNGRAD_THROW(DataError, "[cifar10] '", file, "': label of record ", i, ": expected 0 to ", kCifar10Classes - 1,
                     ", found ", label);
    }
  }
}

std::unique_ptr<Dataset> make_cifar10(const DatasetOptions& options) {
  const bool is_padded = options.preprocessing == "padded";
  TERNGRAD_REQUIRE(is_padded || options.preprocessing == "auto",
                   "[cifar10] preprocessing must be auto or padded, got '", options.preprocessing, "'");
  const int own_size = is_padded ? kCifar10ImageSize : kCifar10CropSize;
  const int max_size = is_padded ? kCifar10ImageSize + 2 * kCifar10Border : kCifar10ImageSize;
  TERNGRAD_REQUIRE(options.image_size >= 0 && options.image_size <= max_size, "[cifar10] image_size must be 0 (",
                   own_size, ") or 1 to ", max_size, ", got ", options.image_size);
  TERNGRAD_REQUIRE(options.num_threads >= 0, "[cifar10] num_threads must not be negative, got ", options.num_threads);
  TERNGRAD_REQUIRE(!options.data_dir.empty(), "[cifar10] needs data_dir, the folder with its files");
  const int num_threads = options.num_threads > 0 ? options.num_threads : num_hardware_threads();
  auto files = is_folder(options.data_dir) && has_shards(options.data_dir, options.subset)
                   ? read_record_files(options.data_dir, options.subset, num_threads)
                   : read_files(options.data_dir, options.subset, num_threads);
  const int image_size = options.image_size > 0 ? options.image_size : own_size;
  const bool is_augmented = options.augment && options.subset == Subset::kTrain;
  if (is_padded) return std::make_unique<PaddedCifar10>(std::move(files), is_augmented, image_size);
  return std::make_unique<DistortedCifar10>(std::move(files), is_augmented, image_size);
}

}  // namespace terngrad
