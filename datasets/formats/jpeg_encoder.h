// Writing JPEG files, by libjpeg.
#pragma once

#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// A baseline JPEG file of an image of 1 or 3 channels: exact integer transform, chroma of half the rows and columns,
/// Huffman tables made for the image. Equal images give equal bytes with the same libjpeg.
/// @param quality  of libjpeg's scale, 1 to 100
/// @throws InvalidArgument for another image or quality; Error where libjpeg gives up, for lack of memory
std::string encode_jpeg(const DecodedImage& image, int quality);

}  // namespace terngrad
