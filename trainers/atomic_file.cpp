#include "trainers/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "kernels/errors.h"
#include "trainers/file_descriptor.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// A new file beside the one to replace; removed by the destructor unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    // Numbers, not random names, so that results never depend on a random source; O_EXCL keeps two writers apart.
    for (int number = 0;; ++number) {
      path_ = folder_of(target) /
              ("." + target.filename().string() + "." + std::to_string(number) + std::string(kTemporarySuffix));
      const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd >= 0) {
        ::close(fd);
        break;
      }
      if (errno != EEXIST || number == 999) throw_file_error("write", target, errno);
    }
    exists_ = true;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (exists_) ::unlink(path_.c_str());
  }

  void fill(std::span<const std::span<const std::byte>> parts) const {
    FileDescriptor file(path_, O_WRONLY);
    file.report_as(target_);
    for (const std::span<const std::byte> part : parts) file.write_all(part);
    file.sync();
  }

  void replace_target() {
    if (::rename(path_.c_str(), target_.c_str()) != 0) throw_file_error("replace", target_, errno);
    exists_ = false;
  }

 private:
  fs::path target_;
  fs::path path_;
  bool exists_ = false;
};

}  // namespace

void write_file_atomically(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  TERNGRAD_REQUIRE(path.has_filename(), "[write_file_atomically] '", path.string(), "' names no file");
  TemporaryFile temporary(path);
  temporary.fill(parts);
  temporary.replace_target();
  // Without this the new name may be lost in a power failure although the content is safe.
  try {
    FileDescriptor(folder_of(path), O_RDONLY | O_DIRECTORY).sync();
  } catch (const DataError& error) {
    TERNGRAD_THROW(DataError, error.what(), "; '", path.string(),
                   "' is the new file, but a power failure may bring back what was there before");
  }
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text.data(), text.size()));
  write_file_atomically(path, std::span(&part, 1));
}

bool is_temporary_name(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return false;
  name.remove_suffix(kTemporarySuffix.size());
  const std::size_t dot = name.rfind('.');
  const std::string_view number = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  return dot > 1 && !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

int remove_stale_temporaries(const fs::path& directory, std::string_view prefix) {
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_temporary_name(name) && name.compare(1, prefix.size(), prefix) == 0) stale.push_back(entry->path());
  }
  if (error) throw_file_error("read the folder", directory, error.value());
  for (const fs::path& path : stale) {
    if (!fs::remove(path, error) && error) throw_file_error("remove", path, error.value());
  }
  return static_cast<int>(stale.size());
}

std::vector<std::byte> read_file_bytes(const fs::path& path) {
  const FileDescriptor file(path, O_RDONLY);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) throw_file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw_file_error("read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) TERNGRAD_THROW(DataError, "cannot read '", path.string(), "': not a regular file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("read", path, errno);
    if (got == 0) TERNGRAD_THROW(DataError, "cannot read '", path.string(), "': it shrank while being read");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string read_file_text(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file_bytes(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace terngrad
