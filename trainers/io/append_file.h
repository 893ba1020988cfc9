// AppendFile: an append-only file of whole records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "trainers/io/file_descriptor.h"
#include "trainers/io/folder.h"

namespace terngrad {

/// Policy for a record that cannot be written, for instance because the disk is full.
enum class OnWriteError {
  kThrow,  // throw DataError
  kKeep,   // keep the record in memory and write it, in order, with the next record that succeeds
};

/// Appends records to a file in an open folder, which may be moved meanwhile. Each record is passed to the operating
/// system at once, so that it survives the end of this process. A record that is written in part is truncated away, so
/// that the file ends with a whole record; only a crash can leave a partial one.
class AppendFile {
 public:
  /// Opens the file `name` for appending and creates it if needed.
  /// @param flags  additional flags of open(2), such as O_EXCL. @throws DataError if it cannot be opened
  AppendFile(Folder folder, std::string name, int flags, OnWriteError on_error);
  AppendFile(const std::filesystem::path& path, int flags, OnWriteError on_error);

  const std::filesystem::path& path() const { return file_.path(); }
  const FileDescriptor& file() const { return file_; }

  /// @throws DataError with kThrow if the record cannot be written; the file is then unchanged, the record dropped
  void append(std::string_view record);

  /// Writes kept records, then fsyncs the file. A file that was deleted meanwhile is still open here: it is written
  /// again under its name, with its whole content.
  /// @returns true if the file had been deleted. @throws DataError, also if another file has taken the name
  bool sync();

 private:
  void write_pending();
  void restore();

  Folder folder_;
  std::string name_;
  FileDescriptor file_;
  OnWriteError on_error_;
  std::string pending_;  // records not yet written
  // Length of the whole records, set while a partial record may follow them.
  std::optional<std::int64_t> whole_length_;
};

}  // namespace terngrad
