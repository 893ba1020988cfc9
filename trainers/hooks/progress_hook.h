// The hook that shows progress.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Shows the live line, or a log line every `log_steps` and after the last step. Other lines: the first step in each
/// such interval with NaN or infinity in a gradient, with tensor and action; the number of skipped steps at the end;
/// and once if steps spend more than a tenth of their time waiting for examples. A resumed run restores the interval of
/// the metrics hook, so that log lines are means over the same steps as in metrics.jsonl.
std::unique_ptr<Hook> make_progress_hook(ProgressDisplay& display, std::uint64_t log_steps);

}  // namespace terngrad
