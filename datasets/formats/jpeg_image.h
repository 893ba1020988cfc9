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

/// Decodes a part of a JPEG image to RGB: the pixels that decode_jpeg gives there, bit for bit.
///
/// Of an image in one scan (baseline) the rows below are not read, and of the rows above and the columns beside only
/// the codes: no transform, no colours. libjpeg treats the edges of such a part as the edges of an image, where it
/// spreads chroma otherwise; so one pixel more on each side, and a few columns at least, are decoded and dropped. Of an
/// image in several scans (progressive) every scan is read, and whole rows: libjpeg may smooth its blocks by their
/// neighbours.
/// @param part  out; its memory is used again
/// @throws DataError as decode_jpeg, except for damage in rows below those of an image in one scan; InvalidArgument for
/// a box without pixels or beyond the image
void decode_jpeg_box(const std::string& file, std::span<const std::uint8_t> bytes, const ImageBox& box,
                     DecodedImage& part);

}  // namespace terngrad
