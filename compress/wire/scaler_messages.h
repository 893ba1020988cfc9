// Scaler messages: how workers tell each other their local scalers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Scalers that such a message has of a tensor: those that workers share, or of a codec that shares none a flag, 0 or
/// NaN for a tensor that is not finite (its scalers travel with its codes). None of a tensor without elements.
std::int64_t num_told_scalers(const Layout& layout, const CodecPlan& plan, int segment);

/// Appends a worker's message of its local scalers of all tensors, from its rows in the coders.
/// @param coders  one per group of the plan, after measure; on the CPU
void append_scalers(const Layout& layout, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                    int worker, const MessageContext& context, Parcels& out);

/// Reads a worker's message into its rows in the coders. A scaler that no encoder sends counts as not finite, as NaN
/// does. A flag becomes all scalers of its tensor, which a codec that shares none has no use for before codes come.
/// @param message  out: taken apart; its storage is reused
/// @throws CommunicationError unless it is the worker's complete list
void read_scalers(const Layout& layout, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                  int worker, const MessageContext& context, std::span<const std::uint8_t> bytes, Message& message);

}  // namespace terngrad
