// RunDirectory: the folder with all files that a training run writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/option_value.h"
#include "trainers/io/folder.h"

namespace terngrad {

/// Facts about one start of a command, for config.json.
struct RunDescription {
  std::string command;                 // e.g. "terngrad_train"
  std::vector<std::string> arguments;  // command line without the program
  std::vector<OptionValue> options;
  std::string version;
  std::string commit;
  RecordedIdentity identity;  // values that a resume must have too
  std::string device = {};    // TrainDevices::model
  /// Host of each process, in order of ranks.
  std::vector<std::string> hosts = {};
};

/// The compiler of this library, e.g. "GCC 12.2.0".
std::string compiler_name();

/// A run directory that this process has open and locked (the system releases the lock when the process ends in any
/// way). If the folder is renamed or moved, the run follows it. It contains
///   config.json    {"command", "options": {name: value}, "set_by_user": [names], "identity": {name: value},
///                  "history": [starts]}: options and identity of the latest start, and for each start its time (UTC),
///                  step, arguments, options, version, commit, compiler, device, machine and the hosts of its processes
///   metrics.jsonl  see MetricsWriter
///   histograms.jsonl  see make_histogram_hook
///   events.out.tfevents.*  the same numbers and histograms for TensorBoard, one file for each start; see EventFile
///   checkpoint-*.safetensors  see Checkpoint
///   trace.json  see make_trace_hook
///   gradients/step-*.safetensors  see make_gradient_dump_hook
///   eval/  results of a terngrad_eval that follows the run; see EvaluationLog
class RunDirectory {
 public:
  static constexpr const char* kMetricsName = "metrics.jsonl";
  static constexpr const char* kHistogramsName = "histograms.jsonl";

  /// Creates `path`, parents included, for a new run and writes config.json.
  /// @throws UsageError with advice if the folder is in use or not empty (temporaries do not count); DataError if it
  /// cannot be written
  static RunDirectory create(const std::filesystem::path& path, const RunDescription& description);

  /// Opens and locks the folder of a run to resume it, and removes temporaries of killed processes. The caller then
  /// reads the newest checkpoint and calls `record_start` with its step.
  /// @throws UsageError if there is no run in the folder or it is in use
  static RunDirectory resume(const std::filesystem::path& path);

  /// Appends a start to the history in config.json, and replaces its options and identity by those of this start.
  /// @param step  step of the checkpoint that the run continues from; 0 if it starts over
  /// @throws DataError if config.json is damaged or cannot be written
  void record_start(const RunDescription& description, std::uint64_t step);

  /// Writes config.json again if it was deleted. @returns true if it was deleted. @throws DataError
  bool restore_config() const;

  /// The identity in config.json, for a resume before the first checkpoint; empty if there is none.
  /// @throws DataError if config.json is damaged
  RecordedIdentity recorded_identity() const;

  /// RunDescription::device of the latest start; empty if it is not recorded.
  /// @throws DataError if config.json is damaged
  std::string recorded_device() const;

  /// True if `path` holds a run that can be resumed: a config.json.
  static bool holds_run(const std::filesystem::path& path);

  const Folder& folder() const { return folder_; }
  /// Current path, see Folder::path.
  std::filesystem::path path() const { return folder_.path(); }
  std::filesystem::path config_path() const { return path() / "config.json"; }
  std::filesystem::path metrics_path() const { return path() / kMetricsName; }
  std::filesystem::path histograms_path() const { return path() / kHistogramsName; }

 private:
  explicit RunDirectory(const std::filesystem::path& path);
  void write_config(std::string text);

  Folder folder_;
  std::string config_text_;  // content that this process has written last
};

}  // namespace terngrad
