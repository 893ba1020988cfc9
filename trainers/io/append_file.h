// AppendFile: a file that grows by whole records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "trainers/io/file_descriptor.h"
#include "trainers/io/folder.h"

namespace terngrad {

/// What is done about a record that cannot be written, say because the disk is full.
enum class OnWriteError {
  kThrow,  // the caller hears of it
  kKeep,   // the record is kept in memory and written, in order, with the next one that can be
};

/// Appends records to a file. It is found where its folder is, wherever that is moved. Each record is handed to the
/// operating system at once, so that it outlives this process; one that fails half-way is taken back, so that the file
/// ends with a whole record. Only a crash can leave a part of one.
class AppendFile {
 public:
  /// Opens the file `name` for appending and creates it if needed.
  /// @param flags  more flags of open(2): O_EXCL. @throws DataError if it cannot be opened
  AppendFile(Folder folder, std::string name, int flags, OnWriteError on_error);
  AppendFile(const std::filesystem::path& path, int flags, OnWriteError on_error);

  const std::filesystem::path& path() const { return file_.path(); }
  const FileDescriptor& file() const { return file_; }

  /// @throws with kThrow, DataError if the record cannot be written: the file is then as before and the record dropped
  void append(std::string_view record);

  /// Returns once all records, kept ones included, are on the medium, under the file's name. A file that was deleted
  /// in the meantime is still open here: it is written again with all that it held.
  /// @returns whether it was. @throws DataError, also if another file has taken the name
  bool sync();

 private:
  void write_pending();
  void restore();

  Folder folder_;
  std::string name_;
  FileDescriptor file_;
  OnWriteError on_error_;
  std::string pending_;  // records not yet written
  // Length of the whole records, while a part of one may follow them.
  std::optional<std::int64_t> whole_length_;
};

}  // namespace terngrad
