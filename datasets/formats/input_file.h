// InputFile: opening the files of data sets by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace terngrad {

/// A regular file that is open for reading. Every reader of a data set opens its files through this class.
class InputFile {
 public:
  /// Opens `path` without waiting: a pipe would block until somebody writes to it.
  /// @throws DataError, naming the path, if it does not exist, is no regular file (a folder, a pipe, a device), or
  /// cannot be opened, with the system's reason (permission denied, too many levels of symbolic links)
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Its length when it was opened.
  std::uint64_t num_bytes() const { return num_bytes_; }

  /// The first `count` bytes, or all if there are fewer.
  /// @throws DataError if they cannot be read, or the file has become shorter
  std::vector<std::uint8_t> read_beginning(std::size_t count) const;
  /// Fills `bytes` with those from `offset` on, all of which must be within num_bytes(). Safe from several threads.
  /// @throws DataError as read_beginning
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const;
  /// Asks the system to fetch bytes that read_at will be called for. Returns at once.
  void will_read(std::uint64_t offset, std::uint64_t count) const;
  std::vector<std::uint8_t> read_all() const { return read_beginning(static_cast<std::size_t>(num_bytes_)); }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
};

/// Whether there is something called `path`, followed where it is a symbolic link.
/// @throws DataError, naming the path, where that cannot be found out (a folder on the way may not be searched, a loop
/// of symbolic links), and for a symbolic link to something that does not exist
bool path_exists(const std::filesystem::path& path);

/// Whether `path` is a folder. @throws DataError as path_exists
bool is_folder(const std::filesystem::path& path);

}  // namespace terngrad
