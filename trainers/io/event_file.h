// EventFile: writes a TensorBoard event file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "trainers/io/append_file.h"
#include "trainers/io/histogram.h"

namespace terngrad {

/// A scalar to plot over steps.
struct NamedScalar {
  std::string tag;  // "section/name": TensorBoard shows tags of one section together
  double value = 0;
};

/// A distribution to plot over steps.
struct NamedHistogram {
  std::string tag;
  Histogram histogram;
};

/// Seconds since 1970 (UTC).
double wall_seconds();

/// Writes events to a new file in a folder, as TFRecords (datasets/formats/tfrecord.h). Each call passes its record to
/// the operating system, so that it survives the end of this process and a running TensorBoard shows it. Values are
/// stored as float32, as the format requires.
class EventFile {
 public:
  /// Creates events.out.tfevents.<seconds>.<host>.<process>. Its name sorts after all event files in `folder`, because
  /// readers read a folder's files in the order of names. The first record holds the format version.
  /// @param clock  returns the time of an event, in seconds since 1970
  /// @param on_error  policy for events that cannot be written
  /// @throws DataError if the file cannot be created
  explicit EventFile(const Folder& folder, std::function<double()> clock = wall_seconds,
                     OnWriteError on_error = OnWriteError::kThrow);

  const std::filesystem::path& path() const { return file_.path(); }

  /// Makes readers drop the values of earlier files for `step` and later steps. A run that resumes from a checkpoint of
  /// step - 1 calls it before it writes. @throws DataError if it cannot be written, like the functions below
  void purge_from(std::uint64_t step);

  /// Writes scalars of a step; NaN and infinity stay as they are.
  void write_scalars(std::uint64_t step, std::span<const NamedScalar> scalars);

  /// Writes histograms of a step, except for empty ones.
  void write_histograms(std::uint64_t step, std::span<const NamedHistogram> histograms);

  /// Writes kept events, then fsyncs the file. @returns true if the file had been deleted and is written again; see
  /// AppendFile::sync. @throws DataError
  bool sync() { return file_.sync(); }

 private:
  void write(std::string_view event);  // appends a serialized event

  std::function<double()> clock_;
  AppendFile file_;
};

}  // namespace terngrad
