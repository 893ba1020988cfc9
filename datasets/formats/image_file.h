// Image files of any format that is known here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// Whether a file's name says that decode_image_file reads it: it ends in .jpg, .jpeg or .png, in any case.
bool has_image_suffix(const std::filesystem::path& path);

/// Size and kind of an image file, from as much of its beginning as it takes. The format is the one that the content
/// says, not the name, for there are .jpg files with PNG content in well-known sets.
/// @throws DataError, naming the file, if it cannot be read or is neither an intact JPEG nor PNG header
ImageHeader read_image_file_header(const std::filesystem::path& path);

/// Decodes an image file: decode_jpeg, decode_png.
/// @throws DataError as above, also for damaged pixels; InvalidArgument for channels other than 1 and 3, or 1 channel
/// of an image with colours
DecodedImage decode_image_file(const std::filesystem::path& path, int channels);

/// Size and kind of an image file that is in memory.
/// @param name  for messages
/// @throws DataError, with the name, if it is neither an intact JPEG nor PNG header
ImageHeader read_image_header(const std::string& name, std::span<const std::uint8_t> bytes);

/// Decodes an image file that is in memory. @throws as decode_image_file
DecodedImage decode_image(const std::string& name, std::span<const std::uint8_t> bytes, int channels);

/// Decodes a part of an image file that is in memory, to RGB: the pixels that decoding the whole gives, bit for bit. Of
/// a JPEG image only what the part needs is decoded, see decode_jpeg_box; of a PNG image all.
/// @param part  out; its memory is used again
/// @throws DataError, with the name, for what is no image or a damaged one; InvalidArgument for a box without pixels or
/// beyond the image
void decode_image_box(const std::string& name, std::span<const std::uint8_t> bytes, const ImageBox& box,
                      DecodedImage& part);

}  // namespace terngrad
