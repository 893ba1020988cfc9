// What a run of terngrad_train writes besides checkpoints, and the hooks that write it.
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
  // The metrics' follower refers to the events.
  RunReports(const RunReports&) = delete;
  RunReports& operator=(const RunReports&) = delete;

  MetricsWriter& metrics() { return *metrics_; }
  /// nullptr with --histogram_steps 0.
  MetricsWriter* histograms() { return histograms_.get(); }
  /// nullptr with --tensorboard=false.
  EventFile* events() { return events_.get(); }
  /// Returns once all of these files, what was kept back while the disk was full included, are on the medium. What was
  /// deleted during the run, config.json included, is written again, and `display` told.
  void sync(ProgressDisplay& display);

 private:
  const RunDirectory& directory_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<MetricsWriter> histograms_;
  std::unique_ptr<EventFile> events_;
};

/// Adds all that reports and saves, in the order that each hook asks for. The arguments outlive the training.
void add_report_hooks(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, RunReports& reports,
                      ProgressDisplay& display);

/// For ranks other than the chief: adds what sends their part of what its hooks write.
void add_sender_hooks(const TrainOptions& o, Trainer& trainer);

}  // namespace terngrad
