// The hook that writes histograms of tensors.
#pragma once

#include <cstdint>
#include <memory>

#include "datasets/dataset.h"
#include "trainers/io/event_file.h"
#include "trainers/io/metrics.h"
#include "trainers/loop/hook.h"

namespace terngrad {

inline constexpr int kActivationExamples = 8;

/// Every `histogram_steps` (0: never) writes histograms of each tensor: one line per kind to histograms.jsonl, and to
/// an event file with the tag "kind/tensor". Kinds:
///   parameters  after the step
///   gradient    local worker 0's gradient, as it was encoded
///   clipped     the same, clipped at the message's scaler (TensorTelemetry::scaler); unclipped if that is 0
///   sent        the worker's decoded message
///   mean        StepView::mean, if not empty
///   activation  the output of each layer ("tensor" is its name) for the first kActivationExamples of `dataset`, in
///               evaluation mode with the parameters after the step and local worker 0's state; with the fraction of
///               zeros as "zero_fraction", in the event file as the scalar "sparsity/layer"
/// A skipped step only has parameters and activations. Costs some passes over the model. docs/measuring.md lists the
/// fields of a line.
/// @param lines    must outlive the hook
/// @param events   nullptr for none; must outlive the hook
/// @param dataset  nullptr for no activations; there are none either once one of its images cannot be read
std::unique_ptr<Hook> make_histogram_hook(MetricsWriter& lines, EventFile* events, std::uint64_t histogram_steps,
                                          std::shared_ptr<const Dataset> dataset);

}  // namespace terngrad
