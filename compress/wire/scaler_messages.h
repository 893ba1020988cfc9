// Scaler messages: each worker's local scalers, sent to all others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Number of values that a scaler message holds for a tensor: its scalers if workers share them, otherwise one flag,
/// NaN for a non-finite tensor and else 0 (the scalers travel with the codes). None for an empty tensor.
std::int64_t num_told_scalers(const Layout& layout, const CodecPlan& plan, int segment);

/// Appends a message with a worker's local scalers of all tensors, from its rows in the coders.
/// @param coders  one per group of the plan, after measure; on the CPU
void append_scalers(const Layout& layout, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                    int worker, const MessageContext& context, Parcels& out);

/// Reads a worker's message into its rows in the coders. A tensor with a scaler above the codec's max_scaler counts as
/// not finite, as with NaN. A flag is copied to all scalers of its tensor, since a codec without shared scalers needs
/// them only once codes arrive.
/// @param message  out: the parsed message; its storage is reused
/// @throws CommunicationError unless it is the worker's complete list
void read_scalers(const Layout& layout, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                  int worker, const MessageContext& context, std::span<const std::uint8_t> bytes, Message& message);

}  // namespace terngrad
