// PNG decoder and encoder, with libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// Reads the header of a PNG image. `bytes` may be only the first part of the file. A palette counts as colours.
/// @param file  name for messages
/// @throws DataError, naming the file and libpng's error, unless `bytes` has an intact header of an image within
/// kMaxImageSide and kMaxImagePixels
ImageHeader read_png_header(const std::string& file, std::span<const std::uint8_t> bytes);

/// Decodes a PNG image: stored values (no gamma), 16 bits reduced to 8, fewer widened to 8, alpha dropped.
/// @param channels  1: grey, only for grey images; 3: RGB, with equal channels for grey images
/// @throws DataError as read_png_header, and for a truncated or damaged image; InvalidArgument for other channels, or 1
/// channel for an image with colours
DecodedImage decode_png(const std::string& file, std::span<const std::uint8_t> bytes, int channels);

/// Encodes an image with 1 or 3 channels, lossless. Equal images give equal bytes with the same libpng and zlib.
/// @throws InvalidArgument for an invalid image
std::string encode_png(const DecodedImage& image);

}  // namespace terngrad
