// FileDescriptor: a move-only owner of a POSIX file descriptor, and the calls on it that report errors as DataError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace terngrad {

/// Throws DataError "cannot <action> '<path>': <text of error_number>".
[[noreturn]] void throw_file_error(const char* action, const std::filesystem::path& path, int error_number);

/// Owns an open file. The destructor closes it and ignores errors, so call `sync` first for data that must not be lost.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Opens `path` as open(2) does, always close-on-exec. @throws DataError
  FileDescriptor(const std::filesystem::path& path, int flags, unsigned mode = 0666);
  /// Takes ownership of the open descriptor `fd`. @param path  name of the file in messages
  FileDescriptor(int fd, std::filesystem::path path) : path_(std::move(path)), fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  void close() noexcept;

  /// Writes all bytes at the file's position. @throws DataError (no space, file-size limit); the write may be partial
  void write_all(std::span<const std::byte> bytes) const;
  /// Fsyncs the file. @throws DataError
  void sync() const;
  /// Takes an exclusive lock on the file or folder; the system releases it when the process ends in any way. @returns
  /// false if another process holds it; true also on file systems without locks, where nothing is locked
  bool try_lock() const;
  /// Length in bytes. @throws DataError
  std::int64_t num_bytes() const;
  /// Truncates or extends the file to `length` bytes. @throws DataError
  void truncate(std::int64_t length) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace terngrad
