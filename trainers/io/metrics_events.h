// The metrics in event files: what terngrad_train and terngrad_eval show in TensorBoard.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trainers/io/event_file.h"
#include "trainers/io/metrics.h"

namespace terngrad {

/// The numbers of a metrics record as scalars, so that both files say the same as far as both could be written: a crash
/// or a full disk may leave the last records in one of them only. A record of kind "tensors" gives
/// "<quantity>/<tensor>" ("zero_fraction/conv1/weights"), one section for each quantity; any other gives "<kind>/<names
/// joined by />" ("train/wire_bytes_per_worker/sent/gradient"). What is no number is left out, and so is "step".
std::vector<NamedScalar> scalars_of(const nlohmann::ordered_json& record);

/// From here on what `metrics` writes goes to `events` too. @param events  outlives the last write to `metrics`
void follow_metrics(MetricsWriter& metrics, EventFile& events);

}  // namespace terngrad
