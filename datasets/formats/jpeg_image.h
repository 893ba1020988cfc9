// JPEG decoder, with libjpeg.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// Reads the header of a JPEG image. `bytes` may be only the first part of the file.
/// @param file  name for messages
/// @throws DataError, naming the file and libjpeg's error, unless `bytes` has an intact header of an image within
/// kMaxImageSide and kMaxImagePixels
ImageHeader read_jpeg_header(const std::string& file, std::span<const std::uint8_t> bytes);

/// Decodes a JPEG image: baseline or progressive; grey, RGB, YCbCr, CMYK or YCCK. CMYK and YCCK are converted as if
/// printed on white, without a colour profile. Uses libjpeg's exact integer transform.
/// @param channels  1: grey, only for grey images; 3: RGB, with equal channels for grey images
/// @throws DataError as read_jpeg_header, and for a truncated or damaged image, for which libjpeg would only warn and
/// invent pixels; InvalidArgument for other channels, or 1 channel for an image with colours
DecodedImage decode_jpeg(const std::string& file, std::span<const std::uint8_t> bytes, int channels);

/// Decodes a rectangle of a JPEG image to RGB, bit-identical to decode_jpeg.
///
/// For images with one scan (baseline), rows below the box are not read, and rows above it and columns beside it are
/// only entropy-decoded, without transforms and colour conversion. libjpeg upsamples chroma differently at the edges of
/// such a part, so one more pixel on each side, and a minimum number of columns, are decoded and dropped. For images
/// with several scans (progressive), all scans and whole rows are decoded, because libjpeg may smooth blocks using
/// their neighbours.
/// @param part  out; its memory is reused
/// @throws DataError as decode_jpeg, except for damage in rows below the box of an image with one scan; InvalidArgument
/// for a box that is empty or not inside the image
void decode_jpeg_box(const std::string& file, std::span<const std::uint8_t> bytes, const ImageBox& box,
                     DecodedImage& part);

}  // namespace terngrad
