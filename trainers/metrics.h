// Metrics files: one JSON object per line and step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trainers/file_descriptor.h"

namespace terngrad {

/// What MetricsWriter does about a line that cannot be written, say because the disk is full.
enum class OnWriteError {
  kThrow,  // the caller hears of it
  kKeep,   // the line is kept in memory and written, in order, with the next one that can be
};

/// Appends JSON objects to a file, one per line, each with a "step". A line is complete or, in the moment of a crash,
/// cut short at the end of the file; a line without its newline counts as not written.
class MetricsWriter {
 public:
  /// Opens `path` for appending and creates it if needed; cuts a half-written last line off first.
  /// @throws DataError if it cannot be opened
  explicit MetricsWriter(const std::filesystem::path& path, OnWriteError on_error = OnWriteError::kThrow);

  /// Appends one line and hands it to the operating system, so that it outlives this process. Doubles are written with
  /// the digits that read back to the same value; NaN and infinity, which JSON lacks, become null.
  /// @param record  a flat or nested object with an integer "step" of 0 or more
  /// @throws InvalidArgument for another record; with kThrow, DataError if the line cannot be written: the file is then
  /// as before and the line is dropped
  void write(const nlohmann::ordered_json& record);

  /// Returns once all lines, kept ones included, are on the medium: called before a checkpoint, so that no line up to
  /// its step is missing after a power failure. @throws DataError
  void sync();

 private:
  void write_pending();

  FileDescriptor file_;
  OnWriteError on_error_;
  std::string pending_;  // lines not yet written
};

/// Removes, atomically, every line whose "step" is greater than `step`, half-written lines at the end included: what a
/// resumed run does before it appends. A missing file is left missing.
/// @returns the number of lines removed
/// @throws DataError naming the line if one before the last good line is not an object with a "step", or if the file
/// cannot be read or replaced
std::int64_t truncate_to_step(const std::filesystem::path& path, std::uint64_t step);

}  // namespace terngrad
