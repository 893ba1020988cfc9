#include "trainers/loop/part_seconds.h"

#include "kernels/runtime/errors.h"

namespace terngrad {

void PartSeconds::add(const StepView& step) {
  TERNGRAD_REQUIRE(step.parts_are_timed, "[parts] those of step ", step.step, " are not timed");
  data += step.data_seconds;
  compute += step.compute_seconds;
  measure += step.report.measure_seconds;
  encode += step.report.encode_seconds;
  wire += step.report.wire_seconds;
  decode += step.report.decode_seconds;
  hidden += step.hidden_seconds;
  exposed += step.exposed_seconds;
  update += step.update_seconds;
}

}  // namespace terngrad
