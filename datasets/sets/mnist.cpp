#include "datasets/sets/mnist.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "datasets/formats/compressed_file.h"
#include "datasets/formats/idx.h"
#include "datasets/formats/input_file.h"
#include "datasets/records/record_store.h"
#include "datasets/records/shards.h"
#include "datasets/records/stored_pixels.h"
#include "datasets/sets/grey_images.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr int kMnistImageSize = 28;
constexpr int kMnistClasses = 10;

/// @param name, kind  "train-images" and "idx3-ubyte", between which some copies have a dot
std::filesystem::path find_mnist_file(const std::string& data_dir, const std::string& name, const std::string& kind) {
  try {
    return find_data_file(data_dir, name + "-" + kind, name + "." + kind);
  } catch (const MissingFileError& error) {
    TERNGRAD_THROW(DataError, "[mnist] ", error.what(), "; scripts/download_data.sh mnist fetches them");
  }
}

GreyPixels read_mnist_records(const std::string& data_dir, Subset subset, int num_threads) {
  const RecordStore store(data_dir, subset, num_threads);
  constexpr std::size_t kPixels = std::size_t{kMnistImageSize} * kMnistImageSize;
  GreyPixels grey{.height = kMnistImageSize, .width = kMnistImageSize, .pixels = {}, .labels = {}};
  grey.pixels.resize(store.size() * kPixels);
  grey.labels.resize(store.size());
  read_stored_pixels(store, kMnistImageSize, kMnistImageSize, 1, kMnistClasses, num_threads,
                     [&](std::size_t record, std::int32_t label, const DecodedImage& image) {
                       std::ranges::copy(image.pixels,
                                         grey.pixels.begin() + static_cast<std::ptrdiff_t>(record * kPixels));
                       grey.labels[record] = static_cast<std::uint8_t>(label);
                     });
  return grey;
}

}  // namespace

GreyPixels read_mnist(const std::string& data_dir, Subset subset) {
  const std::string prefix = subset == Subset::kTrain ? "train" : "t10k";
  const std::filesystem::path images_path = find_mnist_file(data_dir, prefix + "-images", "idx3-ubyte");
  const std::filesystem::path labels_path = find_mnist_file(data_dir, prefix + "-labels", "idx1-ubyte");
  IdxImages images =
      parse_idx_images(images_path.string(), read_sized_data_file(images_path, kIdxHeaderBytes, idx_images_bytes));
  std::vector<std::uint8_t> labels = parse_idx_labels(
      labels_path.string(), read_sized_data_file(labels_path, kIdxHeaderBytes, idx_labels_bytes), kMnistClasses);
  if (images.height != kMnistImageSize || images.width != kMnistImageSize) {
    TERNGRAD_THROW(DataError, "[mnist] '", images_path.string(), "': fields rows and columns: expected 28 x 28, found ",
                   images.height, " x ", images.width);
  }
  if (images.count != static_cast<std::int64_t>(labels.size())) {
    TERNGRAD_THROW(DataError, "[mnist] '", labels_path.string(), "': field count: expected ", images.count,
                   " labels as '", images_path.string(), "' has images, found ", labels.size());
  }
  return {
      .height = images.height, .width = images.width, .pixels = std::move(images.pixels), .labels = std::move(labels)};
}

std::unique_ptr<Dataset> make_mnist(const DatasetOptions& options) {
  check_image_size("mnist", options.image_size);
  TERNGRAD_REQUIRE(!options.data_dir.empty(), "[mnist] needs data_dir, the folder with its files");
  const int num_threads = options.num_threads > 0 ? options.num_threads : num_hardware_threads();
  GreyPixels grey = is_folder(options.data_dir) && has_shards(options.data_dir, options.subset)
                        ? read_mnist_records(options.data_dir, options.subset, num_threads)
                        : read_mnist(options.data_dir, options.subset);
  return std::make_unique<GreyImages>("mnist", std::move(grey), kMnistClasses, options.image_size);
}

}  // namespace terngrad
