// Interval: what a run reports of the steps since its last report.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compress/exchange/gradient_exchange.h"
#include "trainers/loop/hook.h"
#include "trainers/loop/part_seconds.h"
#include "trainers/loop/push_counts.h"

namespace terngrad {

/// Totals of the steps since the last report.
struct Interval {
  std::uint64_t steps = 0;
  double loss = 0;      // sum
  double accuracy = 0;  // sum
  std::uint64_t skipped_steps = 0;
  std::uint64_t nonfinite_steps = 0;  // steps, skipped or not, with NaN or infinity in a gradient
  TransformCounts transform_counts;   // sums
  ExchangeBytes bytes;                // sums, of the steps that were not skipped
  PushCounts pushes;                  // sums, of asynchronous training
  // Time is of this process only: the steps that it ran, and theirs.
  std::uint64_t timed_steps = 0;
  double seconds = 0;
  std::uint64_t steps_with_parts = 0;  // those of whose parts the time is known
  PartSeconds parts;

  void add(const StepView& step);
  /// Sums over `count` steps as a mean; 0 of none.
  static double mean_of(double sum, std::uint64_t count);
  /// Of the steps that this process ran.
  double examples_per_second(std::uint64_t batch_size) const;
  /// All but the times, exactly, as text that parse_interval reads.
  std::string to_text() const;
};

/// Also reads what versions before wrote, whose bytes are left out: they counted what a worker sends to several others
/// once.
/// @throws DataError if `text` is neither
Interval parse_interval(const std::string& text);

/// The entry of a checkpoint in which the metrics hook keeps the interval that a save falls into.
inline constexpr const char* kIntervalKey = "metrics_interval";

/// The interval that a save fell into, from the checkpoint's entries; an empty one where it fell between two.
/// @throws DataError as parse_interval
Interval interval_of(const std::map<std::string, std::string>& entries);

}  // namespace terngrad
