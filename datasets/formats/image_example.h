// ImageExample: a labelled image as a record holds it, in a tf.train.Example.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// A part of an image, in fractions of its sides from the top left.
struct BoundingBox {
  float x_min = 0;
  float y_min = 0;
  float x_max = 1;
  float y_max = 1;
  friend bool operator==(const BoundingBox&, const BoundingBox&) = default;
};

/// The largest label of an image: far above the classes that there are, and small enough to make a net for.
inline constexpr std::int32_t kMaxImageLabel = (1 << 20) - 1;

struct ImageExample {
  std::string encoded = "";  // a JPEG or PNG file, or of a raw image bytes [height, width, 3]
  bool is_raw = false;       // else the content says what it is
  int height = 0;            // as the record says it, 0 if it does not; a raw image's is always said
  int width = 0;
  int channels = 3;             // written only
  std::int32_t label = 0;       // as it is stored, from 0 to kMaxImageLabel
  std::string class_text = "";  // human-readable: "tench, Tinca tinca"
  std::string synset = "";      // "n01440764"
  std::string filename = "";
  std::vector<BoundingBox> boxes = {};
};

/// Parses a tf.train.Example with the keys of the original's image records:
///   image/encoded          bytes, 1     required
///   image/class/label      int64, 1     required, from 0 to kMaxImageLabel
///   image/format           bytes, 1     RAW in any case: a raw image, which must have height x width x 3 bytes
///   image/height, /width   int64, 1     required of a raw image
///   image/class/text, image/class/synset, image/filename   bytes, 1
///   image/object/bbox/{xmin, ymin, xmax, ymax}   float, of equal numbers, in [0, 1], min at most max
/// Other keys are passed over. An empty list is no value.
/// @throws DataError, which says what was expected and found but not of which record, for what is no Example, lacks a
/// key, or has values of another kind, number or range
ImageExample parse_image_example(std::span<const std::uint8_t> data);

/// The bytes of an Example with all keys above that are known, and image/channels and image/colorspace; keys in byte
/// order, so that equal examples give equal bytes. image/format is RAW, JPEG or PNG, by the content.
/// @throws InvalidArgument for an encoded image that is neither, or a raw image of another size
std::string serialize_image_example(const ImageExample& example);

}  // namespace terngrad
