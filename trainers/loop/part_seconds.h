// PartSeconds: time of the parts of training steps.
#pragma once

#include "trainers/loop/hook.h"

namespace terngrad {

/// Sums over steps of the seconds that their parts took on this process; StepView and ExchangeReport say what they are.
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
