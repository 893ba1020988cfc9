// Image files of all supported formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// True if the file name has a suffix of decode_image_file: .jpg, .jpeg or .png, in any case.
bool has_image_suffix(const std::filesystem::path& path);

/// Reads the header of an image file, and no more of the file than needed. The content determines the format, not the
/// name, because well-known sets contain .jpg files with PNG content.
/// @throws DataError, naming the file, if it cannot be read or has neither an intact JPEG nor PNG header
ImageHeader read_image_file_header(const std::filesystem::path& path);

/// Decodes an image file by decode_jpeg or decode_png.
/// @throws DataError as above, also for damaged pixels; InvalidArgument for channels other than 1 and 3, or 1 channel
/// for an image with colours
DecodedImage decode_image_file(const std::filesystem::path& path, int channels);

/// Reads the header of an image file in memory.
/// @param name  for messages
/// @throws DataError, with the name, if it has neither an intact JPEG nor PNG header
ImageHeader read_image_header(const std::string& name, std::span<const std::uint8_t> bytes);

/// Decodes an image file in memory. @throws as decode_image_file
DecodedImage decode_image(const std::string& name, std::span<const std::uint8_t> bytes, int channels);

/// Decodes a rectangle of an image file in memory to RGB, bit-identical to decoding the whole image. JPEG images are
/// decoded partially, see decode_jpeg_box; PNG images as a whole.
/// @param part  out; its memory is reused
/// @throws DataError, with the name, for data that are not an image or are damaged; InvalidArgument for a box that is
/// empty or not inside the image
void decode_image_box(const std::string& name, std::span<const std::uint8_t> bytes, const ImageBox& box,
                      DecodedImage& part);

}  // namespace terngrad
