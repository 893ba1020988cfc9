// RunDirectory: the folder that holds everything one training run writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainers/file_descriptor.h"
#include "trainers/options.h"
#include "trainers/run_identity.h"

namespace terngrad {

/// What config.json records about one start of a command.
struct RunDescription {
  std::string command;                 // e.g. "terngrad_train"
  std::vector<std::string> arguments;  // of the command line, without the program
  std::vector<OptionValue> options;
  std::string version;
  std::string commit;
  RunIdentity identity;     // what a later start must agree in
  std::string device = {};  // what it computes on, for people
  /// The host of each process that takes part, in order of ranks.
  std::vector<std::string> hosts = {};
};

/// The compiler and build this library comes from, e.g. "GCC 12.2.0".
std::string compiler_name();

/// A run directory in use by this process, which holds a lock on it (released by the system however the process ends).
/// It contains
///   config.json    {"command", "options": {name: value}, "set_by_user": [names], "identity": {name: value},
///                  "history": [starts]}: options and identity of the latest start, and for each start its time (UTC),
///                  step, arguments, options, version, commit, compiler, device, machine and the hosts of its processes
///   metrics.jsonl  see MetricsWriter
///   events.out.tfevents.*  the same numbers and histograms for TensorBoard, one file for each start; see EventFile
///   checkpoint-*.safetensors  see Checkpoint
///   trace.json  see make_trace_hook
///   eval/  what terngrad_eval found that followed the run; see EvaluationLog
class RunDirectory {
 public:
  /// Creates `path`, parents included, for a new run and writes config.json.
  /// @throws UsageError if the folder is not empty (left-over temporaries aside) or in use, saying how to go on;
  /// DataError if it cannot be written
  static RunDirectory create(const std::filesystem::path& path, const RunDescription& description);

  /// Opens the folder of a run to go on with it, and removes the temporaries of a killed process. From here on no other
  /// process goes on with it, so the caller can read its newest checkpoint; `record_start` then says from which step.
  /// @throws UsageError if there is no run in the folder or it is in use
  static RunDirectory resume(const std::filesystem::path& path);

  /// Appends a start to the history in config.json, whose options become those of this start.
  /// @param step  the step of the checkpoint that the run goes on from, 0 if it starts over
  /// @throws DataError if config.json is damaged or cannot be written
  void record_start(const RunDescription& description, std::uint64_t step) const;

  /// The identity in config.json, which says whose run it is while there is no checkpoint; empty if it has none.
  /// @throws DataError if config.json is damaged
  RunIdentity recorded_identity() const;

  /// What the latest start computed on (RunDescription::device); empty if that is not recorded.
  /// @throws DataError if config.json is damaged
  std::string recorded_device() const;

  /// True if `path` holds a run that can be resumed, that is a config.json.
  static bool holds_run(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.json"; }
  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }

 private:
  explicit RunDirectory(std::filesystem::path path);

  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace terngrad
