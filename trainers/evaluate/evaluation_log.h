// EvaluationLog: the folder in which terngrad_eval keeps what it found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "trainers/evaluate/evaluate.h"
#include "trainers/io/event_file.h"
#include "trainers/io/folder.h"
#include "trainers/io/metrics.h"

namespace terngrad {

/// What an evaluation was of, besides the step. Results of different subjects do not belong into one curve.
struct EvaluationSubject {
  std::string dataset;
  std::string subset;   // "train" or "test"
  std::string weights;  // "ema" or "parameters"
  std::int64_t num_examples = 0;
  std::string data_fingerprint;  // of these examples, see data_fingerprint.h; empty: not known

  friend bool operator==(const EvaluationSubject&, const EvaluationSubject&) = default;
};

/// A result that a folder holds.
struct RecordedEvaluation {
  std::string checksum;  // of the checkpoint
  Evaluation evaluation;
};

/// e.g. "ema weights on 10000 examples of mnist test (data 0123456789abcdef)".
std::string to_string(const EvaluationSubject& subject);

/// Appends results to metrics.jsonl in a folder, {"step", "kind": subset, "weights", "top1", "top5", "loss",
/// "examples", "dataset", "data_fingerprint", "checkpoint": its checksum}, and to a TensorBoard event file of its own
/// beside it. What the folder holds already stays.
class EvaluationLog {
 public:
  /// Creates the folder, parents included, if there is none.
  /// @throws UsageError if it holds results of another subject, or another process has it open; DataError if a file in
  /// it is damaged or cannot be written
  EvaluationLog(const std::filesystem::path& directory, EvaluationSubject subject);

  // The metrics' follower refers to the events.
  EvaluationLog(const EvaluationLog&) = delete;
  EvaluationLog& operator=(const EvaluationLog&) = delete;

  /// Where the folder is now.
  std::filesystem::path path() const { return folder_.path(); }

  /// The result of a step, nullptr if the folder has none.
  /// @param checksum  of the checkpoint
  /// @throws UsageError if the folder's result is that of another checkpoint of the same step
  const Evaluation* find(std::uint64_t step, const std::string& checksum) const;
  /// @throws DataError if it cannot be written
  void write(std::uint64_t step, const std::string& checksum, const Evaluation& evaluation);

 private:
  EvaluationSubject subject_;
  Folder folder_;  // locked
  MetricsWriter metrics_;
  std::map<std::uint64_t, RecordedEvaluation> results_;
  EventFile events_;
};

}  // namespace terngrad
