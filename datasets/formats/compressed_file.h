// Reading whole data files, plain or compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// Default limit of read_data_file's content: above any set read here, below what a forged file of a few kilobytes can
/// unpack to.
inline constexpr std::size_t kMaxDataFileBytes = std::size_t{1} << 31;

/// Suffixes of the compressed formats that read_data_file unpacks: ".gz", ".xz".
std::vector<std::string> compressed_suffixes();

/// The content of a file, unpacked if it begins as gzip or xz data do, whatever its name, or if its name ends in one of
/// compressed_suffixes() and it is no plain IDX or npy array; as it is otherwise.
/// @throws DataError, naming the file and the problem, if it is missing, not a regular file or unreadable, has more
/// than max_bytes once unpacked, or is not a complete and intact stream of its format (gzip: one or more members; xz:
/// one or more streams with checksums that need at most 256 MiB to unpack), checksums included, without trailing bytes
std::vector<std::uint8_t> read_data_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxDataFileBytes);

/// Unpacks `content`, the bytes of the file `path`, as read_data_file does.
/// @throws DataError as read_data_file
std::vector<std::uint8_t> unpack_data(const std::filesystem::path& path, std::vector<std::uint8_t> content,
                                      std::size_t max_bytes = kMaxDataFileBytes);

/// The first num_bytes of read_data_file's content, or all if there are fewer. Later bytes are not checked.
/// @throws DataError as read_data_file, except for too much content
std::vector<std::uint8_t> read_beginning_of_data(const std::filesystem::path& path, std::size_t num_bytes);

/// Parses the total length of a content, header included, from its beginning.
/// @throws DataError, naming `file`, for an invalid beginning
using ContentBytes = std::function<std::uint64_t(const std::string& file, std::span<const std::uint8_t> beginning)>;

/// read_data_file for content whose header contains its length: unpacking stops there.
/// @param header_bytes   number of leading bytes that content_bytes needs; it gets as many or more, and fewer for
///                       shorter content
/// @throws DataError as read_data_file and content_bytes, and for content longer than its header says. The caller must
/// check for shorter content
std::vector<std::uint8_t> read_sized_data_file(const std::filesystem::path& path, std::size_t header_bytes,
                                               const ContentBytes& content_bytes,
                                               std::size_t max_bytes = kMaxDataFileBytes);

/// Thrown if a file or its folder does not exist, so that readers of data sets can add where to download it.
class MissingFileError : public DataError {
 public:
  using DataError::DataError;
};

/// The path of the file `name` in `folder`, plain or with one of compressed_suffixes(), whichever exists first; else
/// that of `other_name`, another name of the same file, if it has one.
/// @throws MissingFileError if none or the folder does not exist, naming the folder and the expected names; DataError
/// as path_exists (datasets/formats/input_file.h)
std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name,
                                     const std::string& other_name = "");

}  // namespace terngrad
