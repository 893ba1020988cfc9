// The mean of gradients that came as messages, outside of an exchange.
#pragma once

#include <cstdint>
#include <span>

#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Checks the messages of all workers of a step, as read_gradient_message, and writes their mean: bit-equal to that of
/// an exchange between these workers whose downlink is fp32, and in which tensors that are not finite count as zeros.
/// @param messages     one of each worker, in any order, at any address; with the scalers of all workers, where they
///                     share scalers (WorkerEncoder::set_scalers)
/// @param num_workers  that the plan is made for
/// @param mean         out: of the layout, float32. Holds anything after an exception
/// @throws InvalidArgument for another number of messages, for codecs that rotate if the context has no seed,
/// CommunicationError for messages that are damaged, foreign, of one worker twice, or of scalers that differ between
/// workers, NonFiniteError for a mean that overflows
void aggregate_messages(std::span<const std::span<const std::uint8_t>> messages, const Layout& layout,
                        const CodecPlan& plan, int num_workers, const MessageContext& context, const TensorTable& mean,
                        Stream& stream);

}  // namespace terngrad
