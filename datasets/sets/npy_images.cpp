#include "datasets/sets/npy_images.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>

#include "datasets/formats/compressed_file.h"
#include "datasets/formats/input_file.h"
#include "datasets/sets/grey_images.h"
#include "datasets/transforms/centred_range.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::size_t kMaxArrayBytes = std::size_t{1} << 36;
constexpr std::int64_t kMaxSide = 4096;
constexpr std::int64_t kMaxChannels = 64;

/// Images of one element kind, as the bytes of the file.
struct ArrayPixels {
  std::vector<std::uint8_t> bytes;  // content of the file
  std::size_t data_offset = 0;      // offset of the elements
  std::int64_t count = 0;
  int height = 0;
  int width = 0;
  int channels = 0;
  bool is_float = false;
};

class NpyImages final : public Dataset {
 public:
  NpyImages(ArrayPixels pixels, std::vector<std::int32_t> labels, int num_classes, int image_size)
      : pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        num_classes_(num_classes),
        height_(image_size > 0 ? image_size : pixels_.height),
        width_(image_size > 0 ? image_size : pixels_.width) {
    for (std::size_t x = 0; x < values_.size(); ++x) values_[x] = (static_cast<float>(x) / 255.0f - 0.5f) * 2.0f;
  }

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return pixels_.count; }
  int height() const override { return height_; }
  int width() const override { return width_; }
  int channels() const override { return pixels_.channels; }
  int num_classes() const override { return num_classes_; }

  std::int32_t label(std::int64_t index) const override {
    require_index(index);
    return labels_[static_cast<std::size_t>(index)];
  }

  void read(std::int64_t index, const ExampleVisit&, std::span<float> image) const override {
    require_index(index);
    TERNGRAD_REQUIRE(static_cast<std::int64_t>(image.size()) == image_elements(), "[npy] an image needs ",
                     image_elements(), " values, the buffer holds ", image.size());
    const CentredRange rows(pixels_.height, height_);
    const CentredRange columns(pixels_.width, width_);
    const float padding = pixels_.is_float ? 0.0f : values_[0];
    if (rows.count < height_ || columns.count < width_) std::fill(image.begin(), image.end(), padding);
    for (int row = 0; row < rows.count; ++row) {
      const std::int64_t source_row = index * pixels_.height + rows.source + row;
      const std::int64_t from = (source_row * pixels_.width + columns.source) * pixels_.channels;
      const std::ptrdiff_t to = (std::ptrdiff_t{rows.target + row} * width_ + columns.target) * pixels_.channels;
      copy(from, std::int64_t{columns.count} * pixels_.channels, image.data() + to);
    }
  }

  bool is_augmented() const override { return false; }

 private:
  void require_index(std::int64_t index) const {
    TERNGRAD_REQUIRE(index >= 0 && index < num_examples(), "[npy] example index must be in [0, ", num_examples(),
                     "), got ", index);
  }

  void copy(std::int64_t first, std::int64_t count, float* to) const {
    const std::uint8_t* elements = pixels_.bytes.data() + pixels_.data_offset;
    if (pixels_.is_float) {
      std::memcpy(to, elements + 4 * first, 4 * static_cast<std::size_t>(count));
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i] = values_[elements[first + i]];
    }
  }

  std::string name_ = "npy";
  ArrayPixels pixels_;
  std::vector<std::int32_t> labels_;
  int num_classes_;
  int height_;
  int width_;
  std::array<float, 256> values_;  // preprocessed value of each byte
};

/// Throws `error` with the set's name prefixed.
[[noreturn]] void throw_of_this_set(const DataError& error) {
  const std::string text = error.what();
  TERNGRAD_THROW(DataError, text.starts_with("[npy]") ? "" : "[npy] ", text);
}

/// A file's path and unpacked content.
struct ArrayFile {
  std::string name;
  std::vector<std::uint8_t> bytes;
};

ArrayFile read_array_file(const std::string& data_dir, const std::string& name) {
  try {
    const std::filesystem::path path = find_data_file(data_dir, name);
    return {path.string(), read_sized_data_file(path, kNpyBeginningBytes, npy_file_bytes, kMaxArrayBytes)};
  } catch (const DataError& error) {
    throw_of_this_set(error);
  }
}

void refuse_non_finite(const std::string& file, const NpyArray& array, std::int64_t image_elements) {
  for (std::int64_t i = 0; i < array.num_elements; ++i) {
    float value = 0;
    std::memcpy(&value, array.data.data() + 4 * i, sizeof value);
    if (std::isfinite(value)) continue;
    TERNGRAD_THROW(DataError, "[npy] '", file, "': image ", i / image_elements, ": expected finite numbers, found ",
                   value);
  }
}

/// Rejects images in PyTorch's order, whose columns would be taken for channels.
void refuse_channels_first(const std::string& file, const NpyArray& array) {
  const auto is_usual = [](std::int64_t channels) { return channels == 1 || channels == 3 || channels == 4; };
  if (array.shape.size() != 4) return;
  // Two channels are unusual, but images two pixels wide even more.
  if (is_usual(array.shape[3]) || array.shape[3] == 2 || !is_usual(array.shape[1])) return;
  TERNGRAD_THROW(DataError, "[npy] '", file, "': field shape: expected [n, height, width, channels], found ",
                 shape_text(array.shape), ", which looks like [n, channels, height, width]; save ",
                 "numpy.ascontiguousarray(images.transpose(0, 2, 3, 1)) instead");
}

/// The dimensions n, height, width and channels.
std::array<std::int64_t, 4> images_shape(const std::string& file, const NpyArray& array) {
  std::array<std::int64_t, 4> shape = {0, 0, 0, 1};
  const std::size_t num_dimensions = array.shape.size();
  if (num_dimensions == 3 || num_dimensions == 4) std::copy_n(array.shape.begin(), num_dimensions, shape.begin());
  const auto is_in = [](std::int64_t value, std::int64_t max) { return value >= 1 && value <= max; };
  if (shape[0] < 1 || !is_in(shape[1], kMaxSide) || !is_in(shape[2], kMaxSide) || !is_in(shape[3], kMaxChannels)) {
    TERNGRAD_THROW(DataError, "[npy] '", file, "': field shape: expected [n, height, width] or [n, height, width, ",
                   "channels] with n at least 1, sides 1 to ", kMaxSide, " and 1 to ", kMaxChannels,
                   " channels, found ", shape_text(array.shape));
  }
  return shape;
}

ArrayPixels read_pixels(ArrayFile file) {
  const NpyArray array = parse_npy(file.name, file.bytes);
  const bool is_float = array.kind == NpyKind::kFloat && array.element_bytes == 4;
  if (!is_float && !(array.kind == NpyKind::kUnsigned && array.element_bytes == 1)) {
    TERNGRAD_THROW(DataError, "[npy] '", file.name,
                   "': field descr: expected uint8 ('|u1') or float32 ('<f4') images, ", "found elements of ",
                   array.element_bytes, array.kind == NpyKind::kFloat ? " bytes, float" : " bytes, integer");
  }
  refuse_channels_first(file.name, array);
  const std::array<std::int64_t, 4> shape = images_shape(file.name, array);
  if (is_float) refuse_non_finite(file.name, array, shape[1] * shape[2] * shape[3]);
  const std::size_t data_offset = file.bytes.size() - array.data.size();
  return {.bytes = std::move(file.bytes),
          .data_offset = data_offset,
          .count = shape[0],
          .height = static_cast<int>(shape[1]),
          .width = static_cast<int>(shape[2]),
          .channels = static_cast<int>(shape[3]),
          .is_float = is_float};
}

/// Reads the training images' header and rejects test images of another type or size: bytes and floats are preprocessed
/// differently, so accuracies would be meaningless.
void require_like_training_images(const std::string& data_dir, const ArrayFile& test) {
  std::string file = "train_images.npy";
  NpyArray train;
  try {
    const std::filesystem::path path = find_data_file(data_dir, file);
    file = path.string();
    train = parse_npy_header(file, read_beginning_of_data(path, kNpyBeginningBytes));
  } catch (const DataError& error) {
    throw_of_this_set(error);
  }
  const NpyArray own = parse_npy(test.name, test.bytes);
  const auto image = [](const NpyArray& array) {
    return std::vector<std::int64_t>(array.shape.begin() + (array.shape.empty() ? 0 : 1), array.shape.end());
  };
  if (own.kind == train.kind && own.element_bytes == train.element_bytes && image(own) == image(train)) return;
  const auto type = [](const NpyArray& array) {
    return std::to_string(array.element_bytes) + (array.kind == NpyKind::kFloat ? "-byte floats" : "-byte integers");
  };
  TERNGRAD_THROW(DataError, "[npy] '", test.name, "': expected images as in '", file, "', ", shape_text(image(train)),
                 " of ", type(train), ", found ", shape_text(image(own)), " of ", type(own));
}

/// Number of lines in classes.txt, the last one with or without a newline; 0 if the file does not exist.
int count_named_classes(const std::string& data_dir) {
  const std::filesystem::path path = std::filesystem::path(data_dir) / "classes.txt";
  if (!path_exists(path)) return 0;
  const std::vector<std::uint8_t> text = read_data_file(path, std::size_t{1} << 28);
  const std::ptrdiff_t newlines = std::count(text.begin(), text.end(), std::uint8_t{'\n'});
  const std::ptrdiff_t lines = newlines + (!text.empty() && text.back() != '\n' ? 1 : 0);
  if (lines < 1 || lines > kMaxArrayClasses) {
    TERNGRAD_THROW(DataError, "[npy] '", path.string(), "': expected 1 to ", kMaxArrayClasses, " lines, found ", lines);
  }
  return static_cast<int>(lines);
}

struct SubsetLabels {
  std::string file;
  std::vector<std::int32_t> labels;
};

SubsetLabels read_labels(const std::string& data_dir, const std::string& subset, int named_classes) {
  const ArrayFile file = read_array_file(data_dir, subset + "_labels.npy");
  std::vector<std::int32_t> labels = read_npy_labels(file.name, parse_npy(file.name, file.bytes));
  const auto beyond = std::find_if(labels.begin(), labels.end(),
                                   [&](std::int32_t label) { return named_classes > 0 && label >= named_classes; });
  if (beyond != labels.end()) {
    TERNGRAD_THROW(DataError, "[npy] '", file.name, "': label of example ", beyond - labels.begin(), ": expected 0 to ",
                   named_classes - 1, ", for classes.txt has ", named_classes, " lines, found ", *beyond);
  }
  return {file.name, std::move(labels)};
}

/// 1 + the largest label. @throws DataError for more classes than labels make plausible
int count_labelled_classes(const SubsetLabels& first, const SubsetLabels& second) {
  const auto of_first = std::max_element(first.labels.begin(), first.labels.end());
  const auto of_second = std::max_element(second.labels.begin(), second.labels.end());
  const bool is_in_first = *of_first >= *of_second;
  const int num_classes = 1 + (is_in_first ? *of_first : *of_second);
  const std::size_t num_labels = first.labels.size() + second.labels.size();
  if (num_classes <= kMaxUnnamedClasses || static_cast<std::size_t>(num_classes) <= num_labels) return num_classes;
  const std::ptrdiff_t example = is_in_first ? of_first - first.labels.begin() : of_second - second.labels.begin();
  TERNGRAD_THROW(DataError, "[npy] '", (is_in_first ? first : second).file, "': label of example ", example, ": found ",
                 num_classes - 1, ", which makes ", num_classes, " classes, but both subsets have ", num_labels,
                 " examples in all; if it is right, say so with a file classes.txt of one name a line");
}

}  // namespace

std::vector<std::int32_t> read_npy_labels(const std::string& file, const NpyArray& array) {
  if (array.kind == NpyKind::kFloat || array.shape.size() != 1 || array.num_elements == 0) {
    TERNGRAD_THROW(DataError, "[npy] '", file, "': expected integer labels of shape [n], n at least 1, found shape ",
                   shape_text(array.shape), array.kind == NpyKind::kFloat ? " of float" : " of integer", " elements");
  }
  std::vector<std::int32_t> labels(static_cast<std::size_t>(array.num_elements));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const std::uint8_t> element = array.data.subspan(i * array.element_bytes, array.element_bytes);
    const bool negative = array.kind == NpyKind::kSigned && element.back() >= 0x80;
    std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;  // sign extension
    for (std::size_t byte = element.size(); byte-- > 0;) bits = bits << 8 | element[byte];
    if (negative || bits >= kMaxArrayClasses) {
      const std::string found = negative ? std::to_string(static_cast<std::int64_t>(bits)) : std::to_string(bits);
      TERNGRAD_THROW(DataError, "[npy] '", file, "': label of example ", i, ": expected 0 to ", kMaxArrayClasses - 1,
                     ", found ", found);
    }
    labels[i] = static_cast<std::int32_t>(bits);
  }
  return labels;
}

std::unique_ptr<Dataset> make_npy_images(const DatasetOptions& options) {
  check_image_size("npy", options.image_size);
  TERNGRAD_REQUIRE(!options.data_dir.empty(), "[npy] needs data_dir, the folder with its files");
  const bool train = options.subset == Subset::kTrain;
  int num_classes = count_named_classes(options.data_dir);
  SubsetLabels own = read_labels(options.data_dir, train ? "train" : "test", num_classes);
  if (num_classes == 0) {
    const SubsetLabels other = read_labels(options.data_dir, train ? "test" : "train", 0);
    num_classes = count_labelled_classes(own, other);
  }
  ArrayFile file = read_array_file(options.data_dir, train ? "train_images.npy" : "test_images.npy");
  const std::string images_name = file.name;
  if (!train) require_like_training_images(options.data_dir, file);
  ArrayPixels pixels = read_pixels(std::move(file));
  if (pixels.count != static_cast<std::int64_t>(own.labels.size())) {
    TERNGRAD_THROW(DataError, "[npy] '", own.file, "': expected ", pixels.count, " labels as '", images_name,
                   "' has images, found ", own.labels.size());
  }
  return std::make_unique<NpyImages>(std::move(pixels), std::move(own.labels), num_classes, options.image_size);
}

}  // namespace terngrad
