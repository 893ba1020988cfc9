// ImageExample: a labelled image in a tf.train.Example record.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// A rectangle of an image, in fractions of its sides from the top left.
struct BoundingBox {
  float x_min = 0;
  float y_min = 0;
  float x_max = 1;
  float y_max = 1;
  friend bool operator==(const BoundingBox&, const BoundingBox&) = default;
};

/// Maximum label: far above existing numbers of classes, but small enough for a net.
inline constexpr std::int32_t kMaxImageLabel = (1 << 20) - 1;

/// The fields of an image record.
struct ImageExample {
  std::string encoded = "";  // a JPEG or PNG file, or the bytes [height, width, 3] of a raw image
  bool is_raw = false;       // false: the content determines the format
  int height = 0;            // from the record, 0 if missing; always present for raw images
  int width = 0;
  int channels = 3;             // only used for writing
  std::int32_t label = 0;       // stored label, 0 to kMaxImageLabel
  std::string class_text = "";  // human-readable: "tench, Tinca tinca"
  std::string synset = "";      // "n01440764"
  std::string filename = "";
  std::vector<BoundingBox> boxes = {};
};

/// Parses a tf.train.Example with the keys of the original's image records:
///   image/encoded          bytes, 1     required
///   image/class/label      int64, 1     required, from 0 to kMaxImageLabel
///   image/format           bytes, 1     RAW (case-insensitive): a raw image of height x width x 3 bytes
///   image/height, /width   int64, 1     required for raw images
///   image/class/text, image/class/synset, image/filename   bytes, 1
///   image/object/bbox/{xmin, ymin, xmax, ymax}   float, of equal numbers, in [0, 1], min at most max
/// Other keys are ignored. An empty list counts as a missing key.
/// @throws DataError, with expected and found values but without naming the record, for data that are not an Example,
/// lack a key, or have values of a wrong kind, number or range
ImageExample parse_image_example(std::span<const std::uint8_t> data);

/// Serializes an Example with all keys above that have values, and image/channels and image/colorspace; keys are in
/// byte order, so that equal examples give equal bytes. image/format is RAW, JPEG or PNG, by the content.
/// @throws InvalidArgument for an encoded image that is neither JPEG nor PNG, or a raw image of a wrong size
std::string serialize_image_example(const ImageExample& example);

}  // namespace terngrad
