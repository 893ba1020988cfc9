// What terngrad_train and terngrad_eval show in TensorBoard: the metrics, and histograms of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trainers/io/event_file.h"
#include "trainers/io/metrics.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// The numbers of a metrics record as scalars, so that both files say the same as far as both could be written: a crash
/// or a full disk may leave the last records in one of them only. A record of kind "tensors" gives
/// "<quantity>/<tensor>" ("zero_fraction/conv1/weights"), one section for each quantity; any other gives "<kind>/<names
/// joined by />" ("train/wire_bytes_per_worker/sent/gradient"). What is no number is left out, and so is "step".
std::vector<NamedScalar> scalars_of(const nlohmann::ordered_json& record);

/// From here on what `metrics` writes goes to `events` too. @param events  outlives the last write to `metrics`
void follow_metrics(MetricsWriter& metrics, EventFile& events);

/// Every `histogram_steps` (0: never) writes histograms of each tensor: "parameters/<tensor>" after the step, and of
/// worker 0 of this process "gradient/<tensor>" as it was before compression and "sent/<tensor>" as its message says. A
/// skipped step has parameters only. Costs some passes over the model.
/// @param events  outlives the hook
std::unique_ptr<Hook> make_histogram_hook(EventFile& events, std::uint64_t histogram_steps);

}  // namespace terngrad
