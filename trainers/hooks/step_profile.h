// StepProfile: how the time of a training step is split.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainers/loop/hook.h"
#include "trainers/loop/part_seconds.h"

namespace terngrad {

/// Sums of the parts of steps on this process.
class StepProfile {
 public:
  /// Steps of a process that are left out: they touch memory for the first time, and libraries prepare themselves.
  static constexpr std::uint64_t kWarmUpSteps = 3;

  /// @throws InvalidArgument if the step's parts are not timed
  void add(const StepView& step);

  /// Steps that count.
  std::uint64_t num_steps() const { return num_seen_ > kWarmUpSteps ? num_seen_ - kWarmUpSteps : 0; }

  /// Means over the steps that count, in milliseconds and percent of the step:
  ///   data               waiting for examples
  ///   compute            forward, backward and transforms of gradients
  ///   exposed exchange   the exchange, as far as the step waited for it
  ///   update             optimizer and moving average
  ///   the rest           what ranks tell each other about the step, copies of states
  /// which make up the step; and of the exchange, whether the step waited for it or not:
  ///   hidden exchange    as far as it ran beside the computation
  ///   - measure, encode  from gradients to messages
  ///   - wire             messages on their way, waiting for other processes, checksums and taking apart included
  ///   - decode           from messages to the mean
  std::string to_text() const;

 private:
  std::uint64_t num_seen_ = 0;
  double step_seconds_ = 0;  // sum
  PartSeconds parts_;
};

/// Adds every step to `profile`, which outlives the hook.
std::unique_ptr<Hook> make_profile_hook(StepProfile& profile);

}  // namespace terngrad
