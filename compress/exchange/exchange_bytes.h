// Sizes of the messages of an exchange, known before it runs.
#pragma once

#include <cstdint>
#include <span>

#include "compress/exchange/downlink_forms.h"
#include "compress/exchange/route.h"
#include "compress/plan/codec_plan.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Size of a worker's message of local scalers, rounded up to a multiple of 8 bytes as in Parcels.
std::int64_t scalers_message_bytes(const Layout& layout, const CodecPlan& plan);

/// Size of a worker's message with these slices of its encoded gradient, rounded up likewise. Exact for codecs of fixed
/// size (CodecTraits::fixed_size), otherwise an upper bound.
std::int64_t gradient_message_bytes(const CodecPlan& plan, std::span<const Slice> slices);

/// Size of a message with these slices of the mean, rounded up likewise. Exact if forms.has_fixed_size(), otherwise an
/// upper bound.
std::int64_t mean_message_bytes(const CodecPlan& plan, const DownlinkForms& forms, std::span<const Slice> slices);

/// Size of a worker's message with the parts of a route that is not scattered, rounded up likewise; 0 for no slices.
std::int64_t gathered_bytes(const CodecPlan& plan, const Route& route);

/// Size of the lanes that hold sums of these tensors' codes.
std::int64_t lane_bytes(const CodecPlan& plan, std::span<const Slice> slices);

}  // namespace terngrad
