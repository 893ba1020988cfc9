// The hook that shows progress.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Draws the live line, or one log line every `log_steps` and for the steps since at the end of the run. The first step
/// of each such interval with NaN or infinity in a gradient gets its own line that says where and what was done
/// about it, and the end of the run one that says how many steps were skipped, if any were. Where steps wait for
/// examples for more than a tenth of their time, one line says so. A resumed run takes up what the metrics hook saved:
/// log lines are means over the steps of metrics.jsonl's.
std::unique_ptr<Hook> make_progress_hook(ProgressDisplay& display, std::uint64_t log_steps);

}  // namespace terngrad
