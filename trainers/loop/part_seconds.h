// PartSeconds: accumulated times of the parts of training steps.
#pragma once

#include "trainers/loop/hook.h"

namespace terngrad {

/// Seconds of each part of a step on this process, summed over steps; StepView and ExchangeReport define the parts.
struct PartSeconds {
  double data = 0;
  double compute = 0;
  double measure = 0;
  double encode = 0;
  double wire = 0;
  double decode = 0;
  double hidden = 0;
  double exposed = 0;
  double update = 0;

  /// @throws InvalidArgument if the parts of the step are not timed
  void add(const StepView& step);
};

}  // namespace terngrad
