// JPEG encoder, with libjpeg.
#pragma once

#include <string>

#include "datasets/formats/decoded_image.h"

namespace terngrad {

/// Encodes an image with 1 or 3 channels as baseline JPEG: exact integer transform, 4:2:0 chroma subsampling, optimized
/// Huffman tables. Equal images give equal bytes with the same libjpeg.
/// @param quality  libjpeg's quality, 1 to 100
/// @throws InvalidArgument for an invalid image or quality; Error if libjpeg fails, for lack of memory
std::string encode_jpeg(const DecodedImage& image, int quality);

}  // namespace terngrad
