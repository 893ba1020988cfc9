// NPY: reading and writing the file format of NumPy arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// Kind of a .npy array's elements, always little-endian.
enum class NpyKind { kSigned, kUnsigned, kFloat };

/// A .npy array: a view of the parsed bytes.
struct NpyArray {
  NpyKind kind = NpyKind::kUnsigned;
  std::size_t element_bytes = 1;       // 1, 2, 4 or 8
  std::vector<std::int64_t> shape;     // sizes of at least 0; without dimensions one element
  std::int64_t num_elements = 0;       // product of shape
  std::span<const std::uint8_t> data;  // num_elements * element_bytes bytes in C order, not aligned
};

/// Parses a .npy file, format 1.0, 2.0 or 3.0 (numpy.lib.format): magic "\x93NUMPY", version, length of the header
/// (little-endian, 2 bytes in 1.0 and 4 since), a Python dictionary with the keys descr, fortran_order and shape, and
/// the elements.
/// @param file  name for messages
/// @throws DataError, naming file, field, expected and found value, if the header is short, too long or not such a
/// dictionary, the elements are not plain little-endian integers or floats (structures, objects, strings and big-endian
/// numbers are rejected), the array is in Fortran order, or the number of bytes after the header does not match the
/// shape
NpyArray parse_npy(const std::string& file, std::span<const std::uint8_t> bytes);

/// The same for the beginning of a file with at least the header: the number of elements is not checked and `data` is
/// empty.
NpyArray parse_npy_header(const std::string& file, std::span<const std::uint8_t> bytes);

/// Maximum length of a header, far more than any array of numbers has.
inline constexpr std::size_t kMaxNpyHeaderBytes = std::size_t{1} << 16;

/// Number of leading bytes of a file that contain any accepted header, with magic, version and length.
inline constexpr std::size_t kNpyBeginningBytes = kMaxNpyHeaderBytes + 12;

/// Total length of a .npy file, header included, from its first kNpyBeginningBytes bytes.
/// @throws DataError as parse_npy for a short or invalid header
std::uint64_t npy_file_bytes(const std::string& file, std::span<const std::uint8_t> beginning);

/// The bytes before the elements of a .npy file of format 1.0: magic, version, the header's length, and the header
/// padded with spaces so that elements begin at a multiple of 64 bytes, as NumPy writes it. Elements are little-endian
/// and in C order.
/// @param element_bytes  1, 2, 4 or 8; not 1 for floats
/// @throws InvalidArgument for another element size, a negative dimension or a header of 2^16 bytes or more
std::string npy_beginning(NpyKind kind, std::size_t element_bytes, const std::vector<std::int64_t>& shape);

/// "[60000, 28, 28]", for messages.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace terngrad
