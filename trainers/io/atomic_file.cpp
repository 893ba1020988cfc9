#include "trainers/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";

// A new file in the folder of the file to replace; the destructor removes it unless it was renamed.
class TemporaryFile {
 public:
  TemporaryFile(const Folder& folder, std::string target) : folder_(folder), target_(std::move(target)) {
    folder_.require_replaceable(target_);
    // Numbered names, so that results never depend on a random source; O_EXCL separates concurrent writers.
    for (int number = 0;; ++number) {
      name_ = "." + target_ + "." + std::to_string(number) + std::string(kTemporarySuffix);
      std::optional<FileDescriptor> created = folder_.create(name_, target_);
      if (!created && number == 999) throw_file_error("write", folder_.path() / target_, EEXIST);
      if (!created) continue;
      file_ = *std::move(created);
      return;
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (is_renamed_) return;
    try {
      folder_.remove(name_);
    } catch (const DataError&) {
      // The first error matters more; the next start removes the file.
    }
  }

  void fill(const std::function<void(const WritePiece& write)>& fill) {
    fill([this](std::span<const std::byte> piece) { file_.write_all(piece); });
    file_.sync();
    file_.close();
  }

  void replace_target() {
    folder_.rename(name_, target_);
    is_renamed_ = true;
  }

 private:
  Folder folder_;
  std::string target_;
  std::string name_;
  FileDescriptor file_;
  bool is_renamed_ = false;
};

/// The path with symbolic links resolved; the file need not exist.
fs::path followed(fs::path path) {
  constexpr int kMaxLinks = 40;  // Linux's limit
  std::error_code ignored;
  for (int links = 0; fs::is_symlink(path, ignored); ++links) {
    if (links == kMaxLinks) throw_file_error("write", path, ELOOP);
    path = path.parent_path() / fs::read_symlink(path);
  }
  if (!path.has_filename()) throw_file_error("write", path, EISDIR);
  return path;
}

}  // namespace

void write_file_atomically(const Folder& folder, const std::string& name,
                           const std::function<void(const WritePiece& write)>& fill) {
  TemporaryFile temporary(folder, name);
  temporary.fill(fill);
  temporary.replace_target();
  // Without it a power failure may lose the new name, although the content is safe.
  try {
    folder.sync();
  } catch (const DataError& error) {
    TERNGRAD_THROW(DataError, error.what(), "; '", (folder.path() / name).string(),
                   "' is the new file, but a power failure may bring back what was there before");
  }
}

void write_file_atomically(const Folder& folder, const std::string& name,
                           std::span<const std::span<const std::byte>> parts) {
  write_file_atomically(folder, name, [&](const WritePiece& write) {
    for (const std::span<const std::byte> part : parts) write(part);
  });
}

void write_file_atomically(const Folder& folder, const std::string& name, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text.data(), text.size()));
  write_file_atomically(folder, name, std::span(&part, 1));
}

void write_file_atomically(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  const fs::path target = followed(path);
  write_file_atomically(Folder::of(target), target.filename().string(), parts);
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text.data(), text.size()));
  write_file_atomically(path, std::span(&part, 1));
}

void require_writable(const fs::path& path) {
  const fs::path target = followed(path);
  const TemporaryFile temporary(Folder::of(target), target.filename().string());
}

bool is_temporary_name(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return false;
  name.remove_suffix(kTemporarySuffix.size());
  const std::size_t dot = name.rfind('.');
  const std::string_view number = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  return dot > 1 && !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

int remove_stale_temporaries(const Folder& folder, std::string_view prefix) {
  int num_removed = 0;
  for (const std::string& name : folder.names()) {
    if (is_temporary_name(name) && name.compare(1, prefix.size(), prefix) == 0) num_removed += folder.remove(name);
  }
  return num_removed;
}

std::vector<std::byte> read_file_bytes(const fs::path& path) {
  // O_NONBLOCK, so that a pipe is refused instead of waited for.
  return read_file_bytes(FileDescriptor(path, O_RDONLY | O_NONBLOCK));
}

std::vector<std::byte> read_file_bytes(const FileDescriptor& file) {
  const fs::path& path = file.path();
  struct stat status;
  if (::fstat(file.get(), &status) != 0) throw_file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw_file_error("read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) TERNGRAD_THROW(DataError, "cannot read '", path.string(), "': not a regular file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
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

std::string read_file_text(const FileDescriptor& file) {
  const std::vector<std::byte> bytes = read_file_bytes(file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace terngrad
