#include "datasets/formats/idx.h"

#include <cstddef>

#include "datasets/formats/file_kind.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::uint32_t kMaxSide = 4096;

/// Reads the fields of an IDX file in order.
class IdxReader {
 public:
  IdxReader(const std::string& file, std::span<const std::uint8_t> bytes) : file_(file), bytes_(bytes) {}

  std::uint32_t read_field(const char* field) {
    if (bytes_.size() - position_ < 4) {
      TERNGRAD_THROW(DataError, "'", file_, "' is truncated in field ", field, ": expected 4 bytes at offset ",
                     position_, ", found ", bytes_.size() - position_);
    }
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | bytes_[position_++];
    return value;
  }

  void expect_magic(std::uint32_t magic) {
    const std::uint32_t found = read_field("magic");
    if (found == magic) return;
    TERNGRAD_THROW(DataError, "'", file_, "': field magic: expected ", magic, ", found ", found, looks_like(bytes_));
  }

  std::uint32_t read_count() {
    const std::uint32_t count = read_field("count");
    if (count == 0) TERNGRAD_THROW(DataError, "'", file_, "': field count: expected at least 1, found 0");
    return count;
  }

  int read_side(const char* field) {
    const std::uint32_t side = read_field(field);
    if (side < 1 || side > kMaxSide) {
      TERNGRAD_THROW(DataError, "'", file_, "': field ", field, ": expected 1 to ", kMaxSide, ", found ", side);
    }
    return static_cast<int>(side);
  }

  std::size_t position() const { return position_; }

  /// The rest of the file, which must have `expected` bytes.
  std::span<const std::uint8_t> read_rest(const char* what, std::uint64_t expected) {
    const std::span<const std::uint8_t> rest = bytes_.subspan(position_);
    if (rest.size() != expected) {
      TERNGRAD_THROW(DataError, "'", file_,
                     rest.size() < expected ? "' is truncated: " : "' has trailing bytes: ", "expected ", expected,
                     " bytes of ", what, ", found ", rest.size());
    }
    return rest;
  }

 private:
  const std::string& file_;
  std::span<const std::uint8_t> bytes_;
  std::size_t position_ = 0;
};

/// Reads the header of an image file; the result has no pixels yet.
IdxImages read_images_header(IdxReader& reader) {
  reader.expect_magic(kIdxImagesMagic);
  const std::uint32_t count = reader.read_count();
  return {.count = count, .height = reader.read_side("rows"), .width = reader.read_side("columns"), .pixels = {}};
}

std::uint64_t num_pixels(const IdxImages& images) {
  return static_cast<std::uint64_t>(images.count) * static_cast<std::uint64_t>(images.height) *
         static_cast<std::uint64_t>(images.width);
}

/// Reads the header of a label file. @returns the number of labels
std::uint32_t read_labels_header(IdxReader& reader) {
  reader.expect_magic(kIdxLabelsMagic);
  return reader.read_count();
}

}  // namespace

std::uint64_t idx_images_bytes(const std::string& file, std::span<const std::uint8_t> beginning) {
  IdxReader reader(file, beginning);
  const IdxImages images = read_images_header(reader);
  return reader.position() + num_pixels(images);
}

std::uint64_t idx_labels_bytes(const std::string& file, std::span<const std::uint8_t> beginning) {
  IdxReader reader(file, beginning);
  const std::uint64_t count = read_labels_header(reader);
  return reader.position() + count;
}

IdxImages parse_idx_images(const std::string& file, std::span<const std::uint8_t> bytes) {
  IdxReader reader(file, bytes);
  IdxImages images = read_images_header(reader);
  const std::span<const std::uint8_t> pixels = reader.read_rest("pixels", num_pixels(images));
  images.pixels.assign(pixels.begin(), pixels.end());
  return images;
}

std::vector<std::uint8_t> parse_idx_labels(const std::string& file, std::span<const std::uint8_t> bytes,
                                           int num_classes) {
  IdxReader reader(file, bytes);
  const std::uint32_t count = read_labels_header(reader);
  const std::span<const std::uint8_t> labels = reader.read_rest("labels", count);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= num_classes) {
      TERNGRAD_THROW(DataError, "'", file, "': label of example ", i, ": expected 0 to ", num_classes - 1, ", found ",
                     int{labels[i]});
    }
  }
  return {labels.begin(), labels.end()};
}

}  // namespace terngrad
