// Histograms of tensors, for TensorBoard.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/io/event_file.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Every `histogram_steps` (0: never) writes histograms of each tensor: "parameters/<tensor>" after the step, and of
/// worker 0 of this process "gradient/<tensor>" as it was before compression and "sent/<tensor>" as its message says. A
/// skipped step has parameters only. Costs some passes over the model.
/// @param events  outlives the hook
std::unique_ptr<Hook> make_histogram_hook(EventFile& events, std::uint64_t histogram_steps);

}  // namespace terngrad
