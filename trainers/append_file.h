// AppendFile: a file that grows by whole records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "trainers/file_descriptor.h"

namespace terngrad {

/// What is done about a record that cannot be written, say because the disk is full.
enum class OnWriteError {
  kThrow,  // the caller hears of it
  kKeep,   // the record is kept in memory and written, in order, with the next one that can be
};

/// Appends records to a file. Each is handed to the operating system at once, so that it outlives this process; one
/// that fails half-way is taken back, so that the file ends with a whole record. Only a crash can leave a part of one.
class AppendFile {
 public:
  /// Opens `path` for appending and creates it if needed.
  /// @param flags  more flags of open(2): O_EXCL. @throws DataError if it cannot be opened
  AppendFile(const std::filesystem::path& path, int flags, OnWriteError on_error);

  const std::filesystem::path& path() const { return file_.path(); }
  const FileDescriptor& file() const { return file_; }

  /// @throws with kThrow, DataError if the record cannot be written: the file is then as before and the record dropped
  void append(std::string_view record);

  /// Returns once all records, kept ones included, are on the medium. @throws DataError
  void sync();

 private:
  void write_pending();

  FileDescriptor file_;
  OnWriteError on_error_;
  std::string pending_;  // records not yet written
  // Length of the whole records, while a part of one may follow them.
  std::optional<std::int64_t> whole_length_;
};

}  // namespace terngrad
