// Predictions: the classes that a net gives to the examples of a data set, as a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace terngrad {

/// Replaces the file at `path` by a NumPy array of format 1.0, int32, shape (number of examples,): the class of each
/// example in order, kNoClass (-1) where there is none (evaluate.h). A reader finds the old file or all of the new one.
/// @throws DataError as write_file_atomically
void write_predictions(const std::filesystem::path& path, std::span<const std::int32_t> predicted);

}  // namespace terngrad
