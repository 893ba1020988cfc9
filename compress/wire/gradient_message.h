// A worker's whole gradient as one message, for readers outside of an exchange.
#pragma once

#include <cstdint>
#include <span>

#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Parses a gradient message (MessageKind::kGradient), and checks that it holds every tensor of the layout as a whole
/// in the plan's codec, and that all of them can be decoded.
/// @param bytes    8-byte aligned
/// @param message  out: views into `bytes`; its storage is reused
/// @throws CommunicationError as read_message, and naming a tensor that fails the checks
void read_gradient_message(std::span<const std::uint8_t> bytes, const Layout& layout, const CodecPlan& plan,
                           const MessageContext& context, Message& message);

/// Decodes all tensors of a message that read_gradient_message has parsed. @param out  float32
void decode_gradient(const Message& message, const CodecPlan& plan, const TensorTable& out);

}  // namespace terngrad
