#include "trainers/io/file_descriptor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "kernels/runtime/errors.h"

namespace terngrad {

void throw_file_error(const char* action, const std::filesystem::path& path, int error_number) {
  TERNGRAD_THROW(DataError, "cannot ", action, " '", path.string(),
                 "': ", std::generic_category().message(error_number));
}

FileDescriptor::FileDescriptor(const std::filesystem::path& path, int flags, unsigned mode) : path_(path) {
  do {
    fd_ = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) throw_file_error("open", path, errno);
}

void FileDescriptor::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void FileDescriptor::write_all(std::span<const std::byte> bytes) const {
  // Linux writes at most 2 GiB - 4096 bytes per call.
  constexpr std::size_t kMaxChunkBytes = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxChunkBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_file_error("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileDescriptor::sync() const {
  // Devices and pipes return EINVAL: they have nothing to sync.
  if (::fsync(fd_) != 0 && errno != EINVAL) throw_file_error("sync", path_, errno);
}

bool FileDescriptor::try_lock() const { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

std::int64_t FileDescriptor::num_bytes() const {
  struct stat status;
  if (::fstat(fd_, &status) != 0) throw_file_error("inspect", path_, errno);
  return status.st_size;
}

void FileDescriptor::truncate(std::int64_t length) const {
  int result = 0;
  do {
    result = ::ftruncate(fd_, length);
  } while (result != 0 && errno == EINTR);
  if (result != 0) throw_file_error("truncate", path_, errno);
}

}  // namespace terngrad
