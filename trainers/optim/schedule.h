// Schedule: the learning rate as a function of the step.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace terngrad {

/// Formula of the learning rate; see Schedule.
enum class ScheduleKind { kFixed, kExponential, kPolynomial, kSteps };

/// Learning-rate schedules. With t the 0-based step and lr0 the initial rate:
///
///   fixed        lr0
///   exponential  lr0 * f^floor(t / K), a staircase with decay factor f and K steps per decay
///   polynomial   lr0 * sqrt(1 - min(t, T) / T) with T total steps: 0 from step T on
///   steps        lr0 * f^n, with n the number of boundaries b <= t: the rate drops after b updates. PyTorch's
///                MultiStepLR with milestones b and gamma f is the same
///
/// The first three are from the public code of Wen et al., "TernGrad", NeurIPS 2017.
///
/// Values are computed in double from multiplications, one division and a square root only, all correctly rounded, so
/// they are bit-equal on every machine (a library's pow is not).
struct Schedule {
  ScheduleKind kind = ScheduleKind::kFixed;
  double initial_rate = 0.01;
  std::int64_t steps_per_decay = 1;           // K, exponential only
  double decay_factor = 0.1;                  // f, exponential and steps
  std::int64_t total_steps = 1;               // T, polynomial only
  std::vector<std::int64_t> boundaries = {};  // b, steps only; increasing
  /// A rate of a caller's own, by its 0-based step, in place of `kind`. It depends on the step only.
  std::function<double(std::int64_t step)> own = {};

  /// The learning rate of step `step`, 0-based.
  /// @throws InvalidArgument for a negative step, K or T below 1, or boundaries that do not increase
  double rate(std::int64_t step) const;
};

/// K of the exponential schedule: the integer part of num_examples / batch_size * num_epochs_per_decay, at least 1.
/// @param num_examples         examples per epoch
/// @param batch_size           joint batch size of all workers, at least 1
/// @param num_epochs_per_decay  epochs, may be fractional
std::int64_t steps_per_decay(std::int64_t num_examples, std::int64_t batch_size, double num_epochs_per_decay);

}  // namespace terngrad
