// Mean of gradients from messages, outside of an exchange.
#pragma once

#include <cstdint>
#include <span>

#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Checks the messages of all workers of a step, as read_gradient_message does, and writes their mean. It is
/// bit-identical to the mean of an exchange between these workers with downlink fp32 and OnNonfinite::kZero.
/// @param messages     one per worker, in any order and of any alignment. For codecs that share scalers, encoded with
///                     the scalers of all workers (WorkerEncoder::set_scalers)
/// @param num_workers  number for which the plan is made
/// @param mean         out: float32 table of the layout. Unspecified after an exception
/// @throws InvalidArgument for another number of messages, and for codecs that rotate if the context has no seed;
/// CommunicationError for damaged or foreign messages, two messages of one worker, or shared scalers that differ
/// between workers; NonFiniteError for a mean that overflows
void aggregate_messages(std::span<const std::span<const std::uint8_t>> messages, const Layout& layout,
                        const CodecPlan& plan, int num_workers, const MessageContext& context, const TensorTable& mean,
                        Stream& stream);

}  // namespace terngrad
