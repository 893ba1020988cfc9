// Histograms of tensors.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/io/event_file.h"
#include "trainers/io/metrics.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Every `histogram_steps` (0: never) writes histograms of each tensor, to histograms.jsonl a line for each kind, and
/// to an event file with the tag "kind/tensor". Kinds:
///   parameters  after the step
///   gradient    of worker 0 of this process, as it was encoded
///   clipped     the same, clipped at the scaler of what was sent (TensorTelemetry::scaler); if that is 0, as it is
///   sent        what the worker's message says
///   mean        StepView::mean, where there is one
/// A skipped step has parameters only. Costs some passes over the model. docs/measuring.md lists the fields of a line.
/// @param lines   outlives the hook
/// @param events  nullptr, or outlives the hook
std::unique_ptr<Hook> make_histogram_hook(MetricsWriter& lines, EventFile* events, std::uint64_t histogram_steps);

}  // namespace terngrad
