// NPY: the file format of NumPy arrays, read and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// Kind of a .npy array's elements; each is little-endian.
enum class NpyKind { kSigned, kUnsigned, kFloat };

/// A .npy array: a view of the parsed bytes.
struct NpyArray {
  NpyKind kind = NpyKind::kUnsigned;
  std::size_t element_bytes = 1;       // 1, 2, 4 or 8
  std::vector<std::int64_t> shape;     // each at least 0; no dimension = one element
  std::int64_t num_elements = 0;       // product of shape
  std::span<const std::uint8_t> data;  // num_elements * element_bytes, in C order, of any alignment
};

/// Parses a .npy file, format 1.0, 2.0 or 3.0 (numpy.lib.format): magic "\x93NUMPY", version, length of the header
/// (little-endian, 2 bytes in 1.0 and 4 since), a Python dictionary with the keys descr, fortran_order and shape, and
/// the elements.
/// @param file  name for messages
/// @throws DataError, naming file, field, expected and found, if the header is short, too long or not such a
/// dictionary, the
/// elements are no plain little-endian integers or floats (structures, objects, strings and big-endian numbers are
/// refused), the array is in Fortran order, or the bytes after the header are fewer or more than the shape says
NpyArray parse_npy(const std::string& file, std::span<const std::uint8_t> bytes);

/// The same from the beginning of a file, as far as the elements at least: their number is not checked and `data` is
/// empty.
NpyArray parse_npy_header(const std::string& file, std::span<const std::uint8_t> bytes);

/// Longest header that is taken: far more than any array of numbers has.
inline constexpr std::size_t kMaxNpyHeaderBytes = std::size_t{1} << 16;

/// Length of a beginning that holds every header that is taken: magic, version and length come before it.
inline constexpr std::size_t kNpyBeginningBytes = kMaxNpyHeaderBytes + 12;

/// Length of a .npy file, header included, by its first kNpyBeginningBytes bytes.
/// @throws DataError as parse_npy for a header that is short or wrong
std::uint64_t npy_file_bytes(const std::string& file, std::span<const std::uint8_t> beginning);

/// What comes before the elements of a .npy file of format 1.0: magic, version, the header's length, and the header
/// with spaces behind it so that the elements begin at a multiple of 64 bytes, as NumPy writes it. Elements are
/// little-endian and in C order.
/// @param element_bytes  1, 2, 4 or 8; of floats not 1
/// @throws InvalidArgument for another size, a negative side or a header of 2^16 bytes or more
std::string npy_beginning(NpyKind kind, std::size_t element_bytes, const std::vector<std::int64_t>& shape);

/// "[60000, 28, 28]", for messages.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace terngrad
