// StepProfile: the mean times of the parts of a training step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainers/loop/hook.h"
#include "trainers/loop/part_seconds.h"

namespace terngrad {

/// Sums up the times of the parts of steps on this process.
class StepProfile {
 public:
  /// Steps at the beginning that are not counted, in which memory is touched and libraries are prepared.
  static constexpr std::uint64_t kWarmUpSteps = 3;

  /// @throws InvalidArgument if the step's parts are not timed
  void add(const StepView& step);

  /// Number of counted steps.
  std::uint64_t num_steps() const { return num_seen_ > kWarmUpSteps ? num_seen_ - kWarmUpSteps : 0; }

  /// Means over the counted steps, in milliseconds and percent of the step:
  ///   data               waiting for examples
  ///   compute            forward, backward and transforms of gradients
  ///   exposed exchange   exchange time that the step waited for
  ///   update             optimizer and moving average
  ///   the rest           summary of the step over ranks, copies of states
  /// which add up to the step; and for the whole exchange, hidden or exposed:
  ///   hidden exchange    exchange time concurrent with the computation
  ///   - measure, encode  from gradients to messages
  ///   - wire             transport, including waiting for other processes, checksums and parsing
  ///   - decode           from messages to the mean
  std::string to_text() const;

 private:
  std::uint64_t num_seen_ = 0;
  double step_seconds_ = 0;  // sum
  PartSeconds parts_;
};

/// A hook that adds every step to `profile`, which must outlive it.
std::unique_ptr<Hook> make_profile_hook(StepProfile& profile);

}  // namespace terngrad
