#include "datasets/formats/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

[[noreturn]] void throw_not_opened(const std::filesystem::path& path, int error_number) {
  TERNGRAD_THROW(DataError, "'", path.string(), "' cannot be opened: ", std::generic_category().message(error_number));
}

[[noreturn]] void throw_not_read(const std::filesystem::path& path, int error_number) {
  TERNGRAD_THROW(DataError, "'", path.string(), "' cannot be read: ", std::generic_category().message(error_number));
}

/// File type of `path`; nothing if it does not exist. @throws DataError as path_exists
std::optional<mode_t> kind_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status.st_mode;
  const int error_number = errno;
  if (error_number != ENOENT && error_number != ENOTDIR) throw_not_opened(path, error_number);
  if (::lstat(path.c_str(), &status) == 0) {
    TERNGRAD_THROW(DataError, "'", path.string(), "' is a symbolic link to something that does not exist");
  }
  return std::nullopt;
}

[[noreturn]] void throw_no_file(const std::filesystem::path& path) {
  TERNGRAD_THROW(DataError, "'", path.string(), "' is not a file");
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  const std::optional<mode_t> kind = kind_of(path_);
  if (!kind) TERNGRAD_THROW(DataError, "'", path_.string(), "' does not exist");
  // Check before opening: opening a device may have side effects.
  if (!S_ISREG(*kind)) throw_no_file(path_);
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor_ < 0) throw_not_opened(path_, errno);
  struct stat status {};
  const int error_number = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error_number == 0 && S_ISREG(status.st_mode)) {
    num_bytes_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  if (error_number != 0) throw_not_read(path_, error_number);
  throw_no_file(path_);  // replaced between the two checks
}

InputFile::~InputFile() { ::close(descriptor_); }

std::vector<std::uint8_t> InputFile::read_beginning(std::size_t count) const {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(std::min<std::uint64_t>(count, num_bytes_)));
  read_at(0, bytes);
  return bytes;
}

void InputFile::will_read(std::uint64_t offset, std::uint64_t count) const {
  // Advice only: errors are ignored.
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(count), POSIX_FADV_WILLNEED);
}

void InputFile::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_not_read(path_, errno);
    if (got == 0) {
      TERNGRAD_THROW(DataError, "'", path_.string(), "' cannot be read: got ", done, " of ", bytes.size(), " bytes");
    }
    done += static_cast<std::size_t>(got);
  }
}

bool path_exists(const std::filesystem::path& path) { return kind_of(path).has_value(); }

bool is_folder(const std::filesystem::path& path) {
  const std::optional<mode_t> kind = kind_of(path);
  return kind && S_ISDIR(*kind);
}

}  // namespace terngrad
