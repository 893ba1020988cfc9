// InputFile: opening and reading the files of data sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace terngrad {

/// A regular file open for reading. All readers of data sets open their files through this class.
class InputFile {
 public:
  /// Opens `path` without blocking, as a pipe without a writer would.
  /// @throws DataError, naming the path, if it does not exist, is not a regular file (a folder, a pipe, a device), or
  /// cannot be opened, with the system's reason (permission denied, too many levels of symbolic links)
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The file's length when it was opened.
  std::uint64_t num_bytes() const { return num_bytes_; }

  /// The first `count` bytes, or all if there are fewer.
  /// @throws DataError if they cannot be read, or the file has become shorter
  std::vector<std::uint8_t> read_beginning(std::size_t count) const;
  /// Reads `bytes.size()` bytes at `offset`, which must be within num_bytes(). Thread-safe.
  /// @throws DataError as read_beginning
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const;
  /// Prefetch hint for a later read_at. Returns at once.
  void will_read(std::uint64_t offset, std::uint64_t count) const;
  std::vector<std::uint8_t> read_all() const { return read_beginning(static_cast<std::size_t>(num_bytes_)); }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
};

/// True if `path`, with symbolic links followed, exists.
/// @throws DataError, naming the path, if that cannot be determined (no search permission for a folder, a loop of
/// symbolic links), and for a dangling symbolic link
bool path_exists(const std::filesystem::path& path);

/// True if `path` is a folder. @throws DataError as path_exists
bool is_folder(const std::filesystem::path& path);

}  // namespace terngrad
