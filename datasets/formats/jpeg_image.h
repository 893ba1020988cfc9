// JPEG files, by libjpeg.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// Size and kind of a JPEG image, which the first part of the file tells.
/// @param file  name for messages
/// @throws DataError, naming the file and what libjpeg found, unless `bytes` holds an intact header of an image within
/// kMaxImageSide and kMaxImagePixels
ImageHeader read_jpeg_header(const std::string& file, std::span<const std::uint8_t> bytes);

/// Decodes a JPEG image, baseline or progressive, grey, RGB, YCbCr, CMYK or YCCK; the last two as printed on white
/// without a colour profile. Uses libjpeg's exact integer transform.
/// @param channels  1: grey, which must be what the image is; 3: RGB, whose channels are equal for a grey image
/// @throws DataError as read_jpeg_header, and for a truncated or damaged image, where libjpeg would only warn and make
/// up pixels; InvalidArgument for other channels, or 1 channel of an image with colours
DecodedImage decode_jpeg(const std::string& file, std::span<const std::uint8_t> bytes, int channels);

}  // namespace terngrad
