#include "trainers/io/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/// True if an open file has been deleted: it has no name left.
bool is_deleted(const FileDescriptor& file) {
  struct stat status;
  return ::fstat(file.get(), &status) == 0 && status.st_nlink == 0;
}

}  // namespace

Folder::Folder(const fs::path& path)
    : descriptor_(std::make_shared<const FileDescriptor>(path, O_RDONLY | O_DIRECTORY)) {}

Folder Folder::of(const fs::path& path) {
  try {
    return Folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
  } catch (const DataError& error) {
    TERNGRAD_THROW(DataError, "cannot open the folder of '", path.string(), "': ", error.what());
  }
}

fs::path Folder::path() const {
  struct stat opened;
  struct stat named;
  const fs::path& given = descriptor_->path();
  if (::fstat(descriptor_->get(), &opened) != 0) return given;
  if (::stat(given.c_str(), &named) == 0 && is_same_file(opened, named)) return given;
  std::error_code error;
  fs::path now = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor_->get()), error);
  return error || is_deleted(*descriptor_) ? given : now;
}

FileDescriptor Folder::open(const std::string& name, int flags) const {
  const int fd = open_descriptor(name, flags);
  if (fd < 0) fail("open", name, errno);
  return {fd, path() / name};
}

std::optional<FileDescriptor> Folder::create(const std::string& name, const std::string& reported) const {
  const int fd = open_descriptor(name, O_WRONLY | O_CREAT | O_EXCL);
  if (fd < 0 && errno == EEXIST) return std::nullopt;
  if (fd < 0) fail("write", reported, errno);
  return FileDescriptor(fd, path() / reported);
}

std::vector<std::string> Folder::names() const {
  // A separate descriptor, because all readers of one descriptor share its read position.
  const int fd = open_descriptor(".", O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw_file_error("read the folder", path(), errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(fd), ::closedir);
  if (list == nullptr) {
    const int error = errno;
    ::close(fd);
    throw_file_error("read the folder", path(), error);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(list.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
    errno = 0;
  }
  if (errno != 0) throw_file_error("read the folder", path(), errno);
  std::ranges::sort(names);
  return names;
}

bool Folder::has(const std::string& name) const {
  struct stat status;
  if (::fstatat(descriptor_->get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno != ENOENT) fail("inspect", name, errno);
  return false;
}

bool Folder::leads_to(const std::string& name, const FileDescriptor& file) const {
  struct stat named;
  struct stat opened;
  if (::fstat(file.get(), &opened) != 0) fail("inspect", name, errno);
  if (::fstatat(descriptor_->get(), name.c_str(), &named, 0) == 0) return is_same_file(named, opened);
  if (errno != ENOENT) fail("inspect", name, errno);
  return false;
}

void Folder::require_replaceable(const std::string& name) const {
  struct stat status;
  if (::fstatat(descriptor_->get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISDIR(status.st_mode)) fail("write", name, EISDIR);
  if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) return;
  TERNGRAD_THROW(DataError, "cannot write '", (path() / name).string(), "': not a regular file");
}

void Folder::rename(const std::string& from, const std::string& to) const {
  const int folder = descriptor_->get();
  if (::renameat(folder, from.c_str(), folder, to.c_str()) != 0) fail("replace", to, errno);
}

bool Folder::remove(const std::string& name) const {
  if (::unlinkat(descriptor_->get(), name.c_str(), 0) == 0) return true;
  if (errno != ENOENT) fail("remove", name, errno);
  return false;
}

void Folder::fail(const char* action, const std::string& name, int error_number) const {
  const fs::path file = path() / name;
  if (error_number == ENOENT && is_deleted(*descriptor_)) {
    TERNGRAD_THROW(DataError, "cannot ", action, " '", file.string(), "': the folder was deleted while it was in use");
  }
  throw_file_error(action, file, error_number);
}

int Folder::open_descriptor(const std::string& name, int flags) const {
  int fd = -1;
  do {
    fd = ::openat(descriptor_->get(), name.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace terngrad
