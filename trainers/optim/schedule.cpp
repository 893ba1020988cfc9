#include "trainers/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/runtime/errors.h"
#include "trainers/optim/integer_power.h"

namespace terngrad {

double Schedule::rate(std::int64_t step) const {
  TERNGRAD_REQUIRE(step >= 0, "[Schedule] the step must not be negative, got ", step);
  if (own) return own(step);
  switch (kind) {
    case ScheduleKind::kFixed:
      return initial_rate;
    case ScheduleKind::kExponential:
      TERNGRAD_REQUIRE(steps_per_decay >= 1, "[Schedule] steps_per_decay must be at least 1, got ", steps_per_decay);
      return initial_rate * integer_power(decay_factor, static_cast<std::uint64_t>(step / steps_per_decay));
    case ScheduleKind::kPolynomial: {
      TERNGRAD_REQUIRE(total_steps >= 1, "[Schedule] total_steps must be at least 1, got ", total_steps);
      const std::int64_t steps_left = total_steps - std::min(step, total_steps);
      return initial_rate * std::sqrt(static_cast<double>(steps_left) / static_cast<double>(total_steps));
    }
    case ScheduleKind::kSteps: {
      TERNGRAD_REQUIRE(std::ranges::adjacent_find(boundaries, std::greater_equal<>()) == boundaries.end(),
                       "[Schedule] boundaries must increase");
      const auto passed = std::ranges::upper_bound(boundaries, step) - boundaries.begin();
      return initial_rate * integer_power(decay_factor, static_cast<std::uint64_t>(passed));
    }
  }
  TERNGRAD_THROW(InvalidArgument, "[Schedule] unknown kind ", static_cast<int>(kind));
}

std::int64_t steps_per_decay(std::int64_t num_examples, std::int64_t batch_size, double num_epochs_per_decay) {
  TERNGRAD_REQUIRE(num_examples >= 0 && batch_size >= 1, "[steps_per_decay] need a batch size of at least 1, got ",
                   batch_size, ", and a number of examples from 0, got ", num_examples);
  const double steps = static_cast<double>(num_examples) / static_cast<double>(batch_size) * num_epochs_per_decay;
  TERNGRAD_REQUIRE(steps >= 0 && steps < 0x1p62, "[steps_per_decay] out of range: ", steps, " steps");
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
}

}  // namespace terngrad
