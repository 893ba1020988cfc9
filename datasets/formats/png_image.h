// PNG files, by libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// Size and kind of a PNG image, which the first part of the file tells. A palette counts as colours.
/// @param file  name for messages
/// @throws DataError, naming the file and what libpng found, unless `bytes` holds an intact header of an image within
/// kMaxImageSide and kMaxImagePixels
ImageHeader read_png_header(const std::string& file, std::span<const std::uint8_t> bytes);

/// Decodes a PNG image: values as they are stored (no gamma), 16 bits reduced to 8, fewer widened to 8, alpha dropped.
/// @param channels  1: grey, which must be what the image is; 3: RGB, whose channels are equal for a grey image
/// @throws DataError as read_png_header, and for a truncated or damaged image; InvalidArgument for other channels, or 1
/// channel of an image with colours
DecodedImage decode_png(const std::string& file, std::span<const std::uint8_t> bytes, int channels);

/// A PNG file of an image of 1 or 3 channels, without loss. Equal images give equal bytes with the same libpng and
/// zlib.
/// @throws InvalidArgument for another image
std::string encode_png(const DecodedImage& image);

}  // namespace terngrad
