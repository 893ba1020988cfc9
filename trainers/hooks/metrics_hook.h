// The hook that writes metrics.jsonl.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/io/metrics.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Appends to metrics.jsonl: every `log_steps` a line of kind "train", every `telemetry_steps` (0: never) one of kind
/// "tensors". docs/measuring.md lists their fields. Fields that end in _seconds or _per_second are times; all others
/// are the same for equal runs. A checkpoint between two lines stores the sums for the next line (interval_of).
std::unique_ptr<Hook> make_metrics_hook(MetricsWriter& writer, std::uint64_t log_steps, std::uint64_t telemetry_steps);

}  // namespace terngrad
