// Reading data files whole, plain or compressed.
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

/// Largest content that read_data_file takes by default: above any set read here, below what a forged file of a few
/// kilobytes can unpack to.
inline constexpr std::size_t kMaxDataFileBytes = std::size_t{1} << 31;

/// Suffixes of the compressed formats that read_data_file unpacks: ".gz", ".xz".
std::vector<std::string> compressed_suffixes();

/// The content of a file, unpacked if its name ends in one of compressed_suffixes() and as it is otherwise.
/// @throws DataError, naming the file and what is wrong with it, if it is missing, no regular file or unreadable,
/// holds more than max_bytes once unpacked, or is not a complete and intact stream of the format that its name says
/// (a .gz file: one or more gzip members, a .xz file: one or more xz streams that need at most 256 MiB to unpack
/// and have checksums; checksums checked, nothing after them)
std::vector<std::uint8_t> read_data_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxDataFileBytes);

/// What read_data_file does once the file's bytes are there: `content` unpacked as the suffix of `path` says.
/// @throws DataError as read_data_file
std::vector<std::uint8_t> unpack_data(const std::filesystem::path& path, std::vector<std::uint8_t> content,
                                      std::size_t max_bytes = kMaxDataFileBytes);

/// The first num_bytes of what read_data_file gives, or all if there are fewer. What lies behind is not checked.
/// @throws DataError as read_data_file, except for too much content
std::vector<std::uint8_t> read_beginning_of_data(const std::filesystem::path& path, std::size_t num_bytes);

/// How many bytes a content has, its header included, by what its beginning says.
/// @throws DataError, naming `file`, if it cannot say that
using ContentBytes = std::function<std::uint64_t(const std::string& file, std::span<const std::uint8_t> beginning)>;

/// read_data_file for content whose header says how long it is: unpacking stops there, whatever the file holds.
/// @param header_bytes   length of a beginning that is enough for content_bytes, which gets less of shorter content
/// @throws DataError as read_data_file and content_bytes, and for content that is longer than its header says. Shorter
/// content is the caller's to refuse
std::vector<std::uint8_t> read_sized_data_file(const std::filesystem::path& path, std::size_t header_bytes,
                                               const ContentBytes& content_bytes,
                                               std::size_t max_bytes = kMaxDataFileBytes);

/// Thrown where a file or its folder is not there, so that the reader of a set can say where to get it.
class MissingFileError : public DataError {
 public:
  using DataError::DataError;
};

/// The path of `name` in `folder`, or of `name` with one of compressed_suffixes(), in this order.
/// @throws MissingFileError if there is none: the message names the folder and every name that was looked for; or no
/// such folder; DataError as path_exists (datasets/formats/input_file.h) where that cannot be found out
std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace terngrad
