#include "datasets/sets/mnist.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "datasets/formats/compressed_file.h"
#include "datasets/formats/idx.h"
#include "datasets/sets/grey_images.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr int kMnistImageSize = 28;
constexpr int kMnistClasses = 10;

std::filesystem::path find_mnist_file(const std::string& data_dir, const std::string& name) {
  try {
    return find_data_file(data_dir, name);
  } catch (const MissingFileError& error) {
    TERNGRAD_THROW(DataError, "[mnist] ", error.what(), "; scripts/download_data.sh mnist fetches them");
  }
}

}  // namespace

std::unique_ptr<Dataset> make_mnist(const DatasetOptions& options) {
  check_image_size("mnist", options.image_size);
  TERNGRAD_REQUIRE(!options.data_dir.empty(), "[mnist] needs data_dir, the folder with its files");
  const std::string prefix = options.subset == Subset::kTrain ? "train" : "t10k";
  const std::filesystem::path images_path = find_mnist_file(options.data_dir, prefix + "-images-idx3-ubyte");
  const std::filesystem::path labels_path = find_mnist_file(options.data_dir, prefix + "-labels-idx1-ubyte");
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
  GreyPixels grey{
      .height = images.height, .width = images.width, .pixels = std::move(images.pixels), .labels = std::move(labels)};
  return std::make_unique<GreyImages>("mnist", std::move(grey), kMnistClasses, options.image_size);
}

}  // namespace terngrad
