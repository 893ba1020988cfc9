// Interval: sums over the steps since the last report.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compress/route/exchange_report.h"
#include "trainers/loop/hook.h"
#include "trainers/loop/part_seconds.h"
#include "trainers/loop/push_counts.h"

namespace terngrad {

/// Sums over the steps since the last report.
struct Interval {
  std::uint64_t steps = 0;
  double loss = 0;      // sum
  double accuracy = 0;  // sum
  std::uint64_t skipped_steps = 0;
  std::uint64_t nonfinite_steps = 0;  // number of steps with NaN or infinity in a gradient, skipped or not
  TransformCounts transform_counts;   // sums
  ExchangeBytes bytes;                // sums over steps that were not skipped
  std::int64_t frozen_elements = 0;   // sum over the same steps
  PushCounts pushes;                  // sums, asynchronous training only
  // Times of the steps that this process ran itself, without those before a resume.
  std::uint64_t timed_steps = 0;
  double seconds = 0;
  std::uint64_t steps_with_parts = 0;  // steps with StepView::parts_are_timed
  PartSeconds parts;

  void add(const TrainingView& training, const StepView& step);
  /// Mean number of elements that a step exchanged. @param num_elements  of all tensors
  std::int64_t mean_exchanged_elements(std::int64_t num_elements) const;
  /// sum / count; 0 if count is 0.
  static double mean_of(double sum, std::uint64_t count);
  /// Throughput of the steps that this process ran.
  double examples_per_second(std::uint64_t batch_size) const;
  /// Everything except for times, without rounding, as text for parse_interval.
  std::string to_text() const;
};

/// Inverse of Interval::to_text. Also reads texts of earlier versions, without their bytes: these counted a message to
/// several workers once.
/// @throws DataError for other texts
Interval parse_interval(const std::string& text);

/// Checkpoint entry in which the metrics hook stores the interval that contains the save.
inline constexpr const char* kIntervalKey = "metrics_interval";

/// The interval stored in a checkpoint's entries; empty if there is none.
/// @throws DataError as parse_interval
Interval interval_of(const std::map<std::string, std::string>& entries);

}  // namespace terngrad
