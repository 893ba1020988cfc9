// Stopping a run early, so that it can be resumed: after a time, or at a signal.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trainers/launch/progress.h"
#include "trainers/launch/stop_signal.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Asks to stop after the step in which `signal` received one, or in which `stop_after_seconds` of wall time since
/// before_train have passed (0: never), and says so. The run is then saved like a finished one and can be resumed.
/// @param signal      outlives the hook
/// @param also_asked  asked after each step: another reason to stop, in words; empty if there is none
/// @throws InvalidArgument for a negative or NaN time
std::unique_ptr<Hook> make_stop_hook(const StopSignal& signal, double stop_after_seconds, ProgressDisplay& display,
                                     std::function<std::string()> also_asked = {});

}  // namespace terngrad
