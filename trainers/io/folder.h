// Folder: an open folder, and what is done by name with the files in it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainers/io/file_descriptor.h"

namespace terngrad {

/// A folder that is held open. When it is renamed or moved, its files are found where it is then; a folder that has
/// taken its old name is never touched. Names are those of files directly in it. Copies are the same open folder.
class Folder {
 public:
  /// @throws DataError if `path` is not a folder that can be read
  explicit Folder(const std::filesystem::path& path);
  /// The folder that the file `path` lies in. @throws DataError naming the file
  static Folder of(const std::filesystem::path& path);

  /// Where the folder is now: the path it was opened by while that leads to it, else an absolute one.
  std::filesystem::path path() const;
  /// FileDescriptor::try_lock of the folder itself.
  bool try_lock() const { return descriptor_->try_lock(); }

  /// Opens a file as open(2) does. @throws DataError, as the others, with the file's path and the system's reason
  FileDescriptor open(const std::string& name, int flags) const;
  /// Creates a file to write to; nothing if there is one of that name.
  /// @param reported  the name that messages use
  std::optional<FileDescriptor> create(const std::string& name, const std::string& reported) const;
  /// All names in the folder, sorted.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// Whether `name` is the name of the open file: false if it has none, or another file has it.
  bool leads_to(const std::string& name, const FileDescriptor& file) const;
  /// @throws DataError if there is something of that name that a file must not replace: a folder, a device, a pipe
  void require_replaceable(const std::string& name) const;
  /// Gives the file `from` the name `to`, which another file may have had.
  void rename(const std::string& from, const std::string& to) const;
  /// @returns false if there is no such file
  bool remove(const std::string& name) const;
  /// Returns once the names in the folder are on the medium.
  void sync() const { descriptor_->sync(); }

 private:
  [[noreturn]] void fail(const char* action, const std::string& name, int error_number) const;
  /// A descriptor of its own, -1 with errno if it cannot be opened.
  int open_descriptor(const std::string& name, int flags) const;

  std::shared_ptr<const FileDescriptor> descriptor_;
};

}  // namespace terngrad
