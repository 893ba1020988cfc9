// RunReports: the files that a run writes besides checkpoints, and the hooks that write them.
#pragma once

#include <cstdint>
#include <memory>

namespace terngrad {

class EventFile;
class MetricsWriter;
class ProgressDisplay;
class RunDirectory;
class Trainer;
struct StartedRun;
struct TrainOptions;
struct TrainSetup;

/// metrics.jsonl, histograms.jsonl unless --histogram_steps is 0, and an event file unless --tensorboard=false.
class RunReports {
 public:
  RunReports(const TrainOptions& o, const RunDirectory& directory, std::uint64_t first_step);
  ~RunReports();
  // Not copyable: the follower of the metrics refers to the events.
  RunReports(const RunReports&) = delete;
  RunReports& operator=(const RunReports&) = delete;

  MetricsWriter& metrics() { return *metrics_; }
  /// nullptr with --histogram_steps 0.
  MetricsWriter* histograms() { return histograms_.get(); }
  /// nullptr with --tensorboard=false.
  EventFile* events() { return events_.get(); }
  /// Fsyncs all these files, including records that were kept while the disk was full. Files that were deleted during
  /// the run, also config.json, are written again, with a message to `display`.
  void sync(ProgressDisplay& display);

 private:
  const RunDirectory& directory_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<MetricsWriter> histograms_;
  std::unique_ptr<EventFile> events_;
};

/// Adds the chief's hooks for reports, checkpoints and evaluation, in the order that they need. The arguments must
/// outlive the training.
void add_report_hooks(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, RunReports& reports,
                      ProgressDisplay& display);

/// For ranks other than the chief: adds the hooks that send states and gradients to the chief's hooks.
void add_sender_hooks(const TrainOptions& o, Trainer& trainer);

}  // namespace terngrad
