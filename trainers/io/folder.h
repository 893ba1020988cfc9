// Folder: an open folder, and operations on the files in it by name.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainers/io/file_descriptor.h"

namespace terngrad {

/// A folder that is held open (openat). If it is renamed or moved, operations follow it; a new folder under its old
/// name is never touched. Names are of files directly in the folder. Copies share the same open folder.
class Folder {
 public:
  /// @throws DataError if `path` is not a folder that can be read
  explicit Folder(const std::filesystem::path& path);
  /// The folder that the file `path` lies in. @throws DataError naming the file
  static Folder of(const std::filesystem::path& path);

  /// Current path of the folder: the path it was opened by if that still leads to it, else an absolute path.
  std::filesystem::path path() const;
  /// Locks the folder itself; see FileDescriptor::try_lock.
  bool try_lock() const { return descriptor_->try_lock(); }

  /// Opens a file as open(2) does. @throws DataError with path and system's reason, like the functions below
  FileDescriptor open(const std::string& name, int flags) const;
  /// Creates a file for writing; nullopt if the name exists.
  /// @param reported  name to use in messages
  std::optional<FileDescriptor> create(const std::string& name, const std::string& reported) const;
  /// All names in the folder, sorted.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// True if `name` leads to the open file; false if the name does not exist or belongs to another file.
  bool leads_to(const std::string& name, const FileDescriptor& file) const;
  /// @throws DataError if `name` exists and must not be replaced by a file: a folder, a device, a pipe
  void require_replaceable(const std::string& name) const;
  /// Renames `from` to `to`, replacing a file of that name.
  void rename(const std::string& from, const std::string& to) const;
  /// @returns false if there is no such file
  bool remove(const std::string& name) const;
  /// Fsyncs the folder: its names are durable.
  void sync() const { descriptor_->sync(); }

 private:
  [[noreturn]] void fail(const char* action, const std::string& name, int error_number) const;
  /// @returns a new descriptor that the caller owns; -1 with errno if it cannot be opened
  int open_descriptor(const std::string& name, int flags) const;

  std::shared_ptr<const FileDescriptor> descriptor_;
};

}  // namespace terngrad
