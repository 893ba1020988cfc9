// Metrics files: one JSON object per line and step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "trainers/io/append_file.h"

namespace terngrad {

/// Appends JSON objects to a file, one per line, each with a "step". A line is complete or, in the moment of a crash,
/// cut short at the end of the file; a line without its newline counts as not written.
class MetricsWriter {
 public:
  /// Opens the file `name` for appending and creates it if needed; cuts a half-written last line off first.
  /// @throws DataError if it cannot be opened
  MetricsWriter(Folder folder, std::string name, OnWriteError on_error = OnWriteError::kThrow);
  explicit MetricsWriter(const std::filesystem::path& path, OnWriteError on_error = OnWriteError::kThrow);

  /// Appends one line and hands it to the operating system, so that it outlives this process. Doubles are written with
  /// the digits that read back to the same value; NaN and infinity, which JSON lacks, become null.
  /// @param record  a flat or nested object with an integer "step" of 0 or more
  /// @throws InvalidArgument for another record; with kThrow, DataError if the line cannot be written: the file is then
  /// as before and the line is dropped
  void write(const nlohmann::ordered_json& record);

  /// Returns once all lines, kept ones included, are on the medium: called before a checkpoint, so that no line up to
  /// its step is missing after a power failure. @returns whether the file had been deleted and is written again, as
  /// AppendFile::sync. @throws DataError
  bool sync() { return file_.sync(); }
  /// Gives each record to `follower` too, once its line is written: for other forms of the same numbers.
  void set_follower(std::function<void(const nlohmann::ordered_json&)> follower) { follower_ = std::move(follower); }

 private:
  AppendFile file_;
  std::function<void(const nlohmann::ordered_json&)> follower_;
};

/// Removes, atomically, every line whose "step" is greater than `step`, half-written lines at the end included: what a
/// resumed run does before it appends. A missing file is left missing.
/// @returns the number of lines removed
/// @throws DataError naming the line if one before the last good line is not an object with a "step", or if the file
/// cannot be read or replaced
std::int64_t truncate_to_step(const Folder& folder, const std::string& name, std::uint64_t step);
std::int64_t truncate_to_step(const std::filesystem::path& path, std::uint64_t step);

}  // namespace terngrad
