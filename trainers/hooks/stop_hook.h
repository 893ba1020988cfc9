// The hook that stops a run early, after a time or at a signal, so that it can be resumed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trainers/launch/progress.h"
#include "trainers/launch/stop_signal.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Asks to stop after the step in which `signal` received a signal, or in which `stop_after_seconds` of wall time since
/// before_train have passed (0: never), and shows the reason. The run is saved like a finished one and can be resumed.
/// @param signal      must outlive the hook
/// @param also_asked  called after each step: returns the text of another reason to stop; empty for none
/// @throws InvalidArgument for a negative or NaN time
std::unique_ptr<Hook> make_stop_hook(const StopSignal& signal, double stop_after_seconds, ProgressDisplay& display,
                                     std::function<std::string()> also_asked = {});

}  // namespace terngrad
