// StoredImage: an encoded or raw image of a record or file, and access to its pixels.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"
#include "datasets/formats/image_example.h"
#include "datasets/transforms/row_resizer.h"

namespace terngrad {

/// An image in a record or file.
struct StoredImage {
  std::string name = "";                     // for messages
  std::span<const std::uint8_t> bytes = {};  // a JPEG or PNG file, or pixels [height, width, 3]
  bool is_raw = false;                       // true: `bytes` are pixels
  int height = 0;                            // raw images only
  int width = 0;                             // raw images only
  std::span<const BoundingBox> boxes = {};   // known objects in the image
};

/// Reads the header. @throws DataError, with the image's name, for data that are neither a JPEG nor a PNG image, and
/// for a raw image with no, too many or a wrong number of pixels
ImageHeader read_stored_header(const StoredImage& image);

/// The RGB pixels of a box, with equal channels for grey images: a view of a raw image, else decoded into `buffer`.
/// @param image   an image accepted by read_stored_header
/// @throws DataError, with the image's name, for damaged pixels
ImagePart read_stored_part(const StoredImage& image, const ImageBox& box, DecodedImage& buffer);

}  // namespace terngrad
