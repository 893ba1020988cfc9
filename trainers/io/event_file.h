// EventFile: a file that TensorBoard reads.
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

/// A number to show over steps.
struct NamedScalar {
  std::string tag;  // "section/name": TensorBoard shows tags of one section together
  double value = 0;
};

/// A distribution to show over steps.
struct NamedHistogram {
  std::string tag;
  Histogram histogram;
};

/// Seconds since 1970 (UTC).
double wall_seconds();

/// Writes events to a new file in a folder, as records (datasets/formats/tfrecord.h). Each call hands its record to the
/// operating system, so that it outlives this process and a running TensorBoard shows it. Values are kept as float32,
/// as the format has it.
class EventFile {
 public:
  /// Creates events.out.tfevents.<seconds>.<host>.<process>, whose name sorts after those of all event files in
  /// `folder`: readers take a folder's files in order of names. Its first record is the version.
  /// @param clock  gives the time of each event, in seconds since 1970
  /// @param on_error  what is done about an event that cannot be written
  /// @throws DataError if the file cannot be created
  explicit EventFile(const Folder& folder, std::function<double()> clock = wall_seconds,
                     OnWriteError on_error = OnWriteError::kThrow);

  const std::filesystem::path& path() const { return file_.path(); }

  /// Makes readers drop what earlier files hold for `step` and later steps: what a run writes first that continues from
  /// a checkpoint of step - 1. @throws DataError, as the others, if it cannot be written
  void purge_from(std::uint64_t step);

  /// NaN and infinity are written as such.
  void write_scalars(std::uint64_t step, std::span<const NamedScalar> scalars);

  /// Histograms without values are left out.
  void write_histograms(std::uint64_t step, std::span<const NamedHistogram> histograms);

  /// Returns once all events, kept ones included, are on the medium. @returns whether the file had been deleted and is
  /// written again, as AppendFile::sync. @throws DataError
  bool sync() { return file_.sync(); }

 private:
  void write(std::string_view event);  // serialized

  std::function<double()> clock_;
  AppendFile file_;
};

}  // namespace terngrad
