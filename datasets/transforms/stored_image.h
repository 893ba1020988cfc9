// An image as a record or file holds it, and its pixels.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"
#include "datasets/formats/image_example.h"
#include "datasets/transforms/row_resizer.h"

namespace terngrad {

/// An image as a record or file holds it.
struct StoredImage {
  std::string name = "";                     // for messages
  std::span<const std::uint8_t> bytes = {};  // a JPEG or PNG file, or pixels [height, width, 3]
  bool is_raw = false;                       // pixels
  int height = 0;                            // of a raw image; else the file says it
  int width = 0;                             // likewise
  std::span<const BoundingBox> boxes = {};   // what it shows, where that is known
};

/// @throws DataError, with the image's name, for what is neither a JPEG nor a PNG image, or a raw image that has no or
/// too many pixels or other than it says
ImageHeader read_stored_header(const StoredImage& image);

/// The pixels of a part: those of a raw image where they are, else decoded into `buffer`. Colours; grey ones become
/// three equal channels.
/// @param image   of which read_stored_header has been called
/// @throws DataError, with the image's name, for damaged pixels
ImagePart read_stored_part(const StoredImage& image, const ImageBox& box, DecodedImage& buffer);

}  // namespace terngrad
