// EvaluationLog: the folder in which terngrad_eval stores its results.
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

/// Weights and examples of an evaluation. Results of different subjects must not be mixed in one curve.
struct EvaluationSubject {
  std::string dataset;
  std::string subset;   // "train" or "test"
  std::string weights;  // "ema" or "parameters"
  std::int64_t num_examples = 0;
  std::string data_fingerprint;  // fingerprint of these examples, see data_fingerprint.h; empty: unknown

  friend bool operator==(const EvaluationSubject&, const EvaluationSubject&) = default;
};

/// A result in the folder.
struct RecordedEvaluation {
  std::string checksum;  // checksum of the checkpoint
  Evaluation evaluation;
};

/// e.g. "ema weights on 10000 examples of mnist test (data 0123456789abcdef)".
std::string to_string(const EvaluationSubject& subject);

/// Appends results to metrics.jsonl in a folder, {"step", "kind": subset, "weights", "top1", "top5", "loss",
/// "examples", "dataset", "data_fingerprint", "checkpoint": its checksum}, and to a new TensorBoard event file there.
/// Existing results are kept.
class EvaluationLog {
 public:
  /// Opens and locks the folder; creates it with its parents if needed.
  /// @throws UsageError if it contains results of another subject, or another process has locked it; DataError if a
  /// file in it is damaged or cannot be written
  EvaluationLog(const std::filesystem::path& directory, EvaluationSubject subject);

  // Not copyable: the follower of the metrics refers to the events.
  EvaluationLog(const EvaluationLog&) = delete;
  EvaluationLog& operator=(const EvaluationLog&) = delete;

  /// Current path of the folder.
  std::filesystem::path path() const { return folder_.path(); }

  /// The result of a step; nullptr if there is none.
  /// @param checksum  checksum of the checkpoint
  /// @throws UsageError if the stored result belongs to another checkpoint of the same step
  const Evaluation* find(std::uint64_t step, const std::string& checksum) const;
  /// Appends a result. @throws DataError if it cannot be written
  void write(std::uint64_t step, const std::string& checksum, const Evaluation& evaluation);

 private:
  EvaluationSubject subject_;
  Folder folder_;  // locked
  MetricsWriter metrics_;
  std::map<std::uint64_t, RecordedEvaluation> results_;
  EventFile events_;
};

}  // namespace terngrad
