// IDX: the file format of MNIST.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// Images of an IDX file.
struct IdxImages {
  std::int64_t count = 0;
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> pixels;  // [count, height, width]: 0 = background, 255 = ink
};

inline constexpr std::uint32_t kIdxImagesMagic = 2051;  // unsigned bytes, 3 dimensions
inline constexpr std::uint32_t kIdxLabelsMagic = 2049;  // unsigned bytes, 1 dimension

/// Parses an IDX image file: big-endian uint32 magic 2051, count, rows, columns, then count * rows * columns bytes,
/// image after image, row by row.
/// @param file  name for messages
/// @throws DataError, naming file, field, expected and found value, for a short header, another magic, count 0, rows or
/// columns outside [1, 4096], or a wrong number of bytes after the header
IdxImages parse_idx_images(const std::string& file, std::span<const std::uint8_t> bytes);

/// Parses an IDX label file: big-endian uint32 magic 2049 and count, then one byte per label.
/// @throws DataError as above, and for a label outside [0, num_classes)
std::vector<std::uint8_t> parse_idx_labels(const std::string& file, std::span<const std::uint8_t> bytes,
                                           int num_classes);

/// Length of the longer header, that of image files.
inline constexpr std::size_t kIdxHeaderBytes = 16;

/// Total lengths of the two kinds of files, headers included, from their first kIdxHeaderBytes bytes.
/// @throws DataError as parse_idx_images and parse_idx_labels for a short or invalid header
std::uint64_t idx_images_bytes(const std::string& file, std::span<const std::uint8_t> beginning);
std::uint64_t idx_labels_bytes(const std::string& file, std::span<const std::uint8_t> beginning);

}  // namespace terngrad
