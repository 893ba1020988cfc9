// A worker's whole gradient as one message, for those who read it by itself.
#pragma once

#include <cstdint>
#include <span>

#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Takes a gradient's message (MessageKind::kGradient) apart, and checks that it has every tensor of the layout as a
/// whole in the plan's codec, and that all can be decoded.
/// @param bytes    8-byte aligned
/// @param message  out; its storage is reused. Views into `bytes`
/// @throws CommunicationError as read_message, and naming the tensor that is not as it should be
void read_gradient_message(std::span<const std::uint8_t> bytes, const Layout& layout, const CodecPlan& plan,
                           const MessageContext& context, Message& message);

/// Decodes all tensors of a message that read_gradient_message has read. @param out  float32
void decode_gradient(const Message& message, const CodecPlan& plan, const TensorTable& out);

}  // namespace terngrad
