// Copies metrics to event files, for TensorBoard.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trainers/io/event_file.h"
#include "trainers/io/metrics.h"

namespace terngrad {

/// The numbers of a metrics record as scalars. After a crash or on a full disk, the last records may be in the metrics
/// or in the event file only. Tags of records of kind "tensors" are "<quantity>/<tensor>"
/// ("zero_fraction/conv1/weights"), one section per quantity; others are "<kind>/<names joined by />"
/// ("train/wire_bytes_per_worker/sent/gradient"). Omits "step", "staleness" and values that are not numbers.
std::vector<NamedScalar> scalars_of(const nlohmann::ordered_json& record);

/// Also writes the records of `metrics` to `events` from now on. @param events  must outlive writes to `metrics`
void follow_metrics(MetricsWriter& metrics, EventFile& events);

}  // namespace terngrad
