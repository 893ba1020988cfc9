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

/// Appends JSON objects to a file, one per line, each with a "step". Only a crash can leave a partial line, at the end
/// of the file; a line without a newline counts as not written.
class MetricsWriter {
 public:
  /// Opens the file `name` for appending and creates it if needed; removes a partial last line first.
  /// @throws DataError if it cannot be opened
  MetricsWriter(Folder folder, std::string name, OnWriteError on_error = OnWriteError::kThrow);
  explicit MetricsWriter(const std::filesystem::path& path, OnWriteError on_error = OnWriteError::kThrow);

  /// Appends one line and passes it to the operating system, so that it survives the end of this process. Doubles are
  /// written with the digits that read back to the same value; NaN and infinity, which JSON lacks, become null.
  /// @param record  a flat or nested object with an integer "step" of 0 or more
  /// @throws InvalidArgument for another record; DataError with kThrow if the line cannot be written: the file is then
  /// unchanged and the line is dropped
  void write(const nlohmann::ordered_json& record);

  /// Writes kept lines, then fsyncs the file. Call it before a checkpoint is saved, so that no line up to its step is
  /// missing after a power failure. @returns true if the file had been deleted and is written again; see
  /// AppendFile::sync. @throws DataError
  bool sync() { return file_.sync(); }
  /// Calls `follower` with each record after its line is written, to write the same numbers in another format.
  void set_follower(std::function<void(const nlohmann::ordered_json&)> follower) { follower_ = std::move(follower); }

 private:
  AppendFile file_;
  std::function<void(const nlohmann::ordered_json&)> follower_;
};

/// Atomically removes every line whose "step" is greater than `step`, and a partial last line. A resumed run calls it
/// before it appends. A missing file stays missing.
/// @returns the number of lines removed
/// @throws DataError naming the line if a line before the last valid one is not an object with a "step", or if the file
/// cannot be read or replaced
std::int64_t truncate_to_step(const Folder& folder, const std::string& name, std::uint64_t step);
std::int64_t truncate_to_step(const std::filesystem::path& path, std::uint64_t step);

}  // namespace terngrad
