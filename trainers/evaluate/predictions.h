// Predictions: writes predicted classes to a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace terngrad {

/// Atomically replaces the file at `path` by a NumPy array (format 1.0, int32, shape (number of examples,)) of the
/// class of each example in order, or kNoClass (-1, evaluate.h).
/// @throws DataError as write_file_atomically
void write_predictions(const std::filesystem::path& path, std::span<const std::int32_t> predicted);

}  // namespace terngrad
