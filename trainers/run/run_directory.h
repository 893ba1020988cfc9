// RunDirectory: the folder that holds everything one training run writes.
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

/// What config.json records about one start of a command.
struct RunDescription {
  std::string command;                 // e.g. "terngrad_train"
  std::vector<std::string> arguments;  // of the command line, without the program
  std::vector<OptionValue> options;
  std::string version;
  std::string commit;
  RecordedIdentity identity;  // what a later start must agree in
  std::string device = {};    // what it computes on, human-readable
  /// The host of each process that takes part, in order of ranks.
  std::vector<std::string> hosts = {};
};

/// The compiler and build this library comes from, e.g. "GCC 12.2.0".
std::string compiler_name();

/// A run directory in use by this process, which holds a lock on it (released by the system however the process ends).
/// It is held open: a run whose folder is renamed or moved stays in it, and touches none that takes its name.
/// It contains
///   config.json    {"command", "options": {name: value}, "set_by_user": [names], "identity": {name: value},
///                  "history": [starts]}: options and identity of the latest start, and for each start its time (UTC),
///                  step, arguments, options, version, commit, compiler, device, machine and the hosts of its processes
///   metrics.jsonl  see MetricsWriter
///   histograms.jsonl  see make_histogram_hook
///   events.out.tfevents.*  the same numbers and histograms for TensorBoard, one file for each start; see EventFile
///   checkpoint-*.safetensors  see Checkpoint
///   trace.json  see make_trace_hook
///   gradients/step-*.safetensors  see make_gradient_dump_hook
///   eval/  what terngrad_eval found that followed the run; see EvaluationLog
class RunDirectory {
 public:
  static constexpr const char* kMetricsName = "metrics.jsonl";
  static constexpr const char* kHistogramsName = "histograms.jsonl";

  /// Creates `path`, parents included, for a new run and writes config.json.
  /// @throws UsageError if the folder is not empty (left-over temporaries aside) or in use, saying how to continue;
  /// DataError if it cannot be written
  static RunDirectory create(const std::filesystem::path& path, const RunDescription& description);

  /// Opens the folder of a run to resume it, and removes the temporaries of a killed process. From here on no other
  /// process continues with it, so the caller can read its newest checkpoint; `record_start` then says from which step.
  /// @throws UsageError if there is no run in the folder or it is in use
  static RunDirectory resume(const std::filesystem::path& path);

  /// Appends a start to the history in config.json, whose options become those of this start.
  /// @param step  the step of the checkpoint that the run continues from, 0 if it starts over
  /// @throws DataError if config.json is damaged or cannot be written
  void record_start(const RunDescription& description, std::uint64_t step);

  /// Writes config.json again if it was deleted since. @returns whether it was. @throws DataError
  bool restore_config() const;

  /// The identity in config.json, which says whose run it is while there is no checkpoint; empty if it has none.
  /// @throws DataError if config.json is damaged
  RecordedIdentity recorded_identity() const;

  /// What the latest start computed on (RunDescription::device); empty if that is not recorded.
  /// @throws DataError if config.json is damaged
  std::string recorded_device() const;

  /// True if `path` holds a run that can be resumed, that is a config.json.
  static bool holds_run(const std::filesystem::path& path);

  const Folder& folder() const { return folder_; }
  /// Where it is now, as Folder::path.
  std::filesystem::path path() const { return folder_.path(); }
  std::filesystem::path config_path() const { return path() / "config.json"; }
  std::filesystem::path metrics_path() const { return path() / kMetricsName; }
  std::filesystem::path histograms_path() const { return path() / kHistogramsName; }

 private:
  explicit RunDirectory(const std::filesystem::path& path);
  void write_config(std::string text);

  Folder folder_;
  std::string config_text_;  // as this process has written it
};

}  // namespace terngrad
