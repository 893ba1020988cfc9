// The optdigits data set: handwritten digits of 8 x 8 pixels (Alpaydin, Kaynak, 1998; UCI repository).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "datasets/dataset.h"
#include "datasets/sets/grey_images.h"

namespace terngrad {

/// Parses lines of 64 pixels, 0 = background to 16 = ink, and a label, separated by commas. Pixels become bytes: 255
/// times x / 16, rounded down.
/// @param file  name for messages
/// @throws DataError, naming file and line, for anything else
GreyPixels parse_optdigits(const std::string& file, std::span<const std::uint8_t> text);

/// Opens optdigits.tra (test subset: optdigits.tes) in `options.data_dir`, plain or with .gz or .xz. How images are
/// preprocessed: see GreyImages.
/// @throws InvalidArgument if data_dir is empty or image_size is bad; DataError if the file is missing or damaged
std::unique_ptr<Dataset> make_optdigits(const DatasetOptions& options);

}  // namespace terngrad
