// MessageAggregator: the mean of gradients that came as messages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codecs/coder.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/payload_rows.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// The mean of all workers' whole gradients from their messages, for those who move messages by themselves: with the
/// bits of an exchange whose mean travels back as fp32 (CompressedAllReduce). Keeps storage from call to call.
class MessageAggregator {
 public:
  /// @param layout, plan  for a run of num_workers workers; kept by reference
  MessageAggregator(const Layout& layout, const CodecPlan& plan, int num_workers);

  /// @param messages  one of each worker, in any order; 8-byte aligned
  /// @param context   that of all messages
  /// @param mean      out: float32
  /// @throws CommunicationError for a message that read_gradient_message refuses, a worker that is missing or comes
  /// twice, and for workers that share scalers but have different ones
  void aggregate(std::span<const std::span<const std::uint8_t>> messages, const MessageContext& context,
                 const TensorTable& mean, Stream& stream);

 private:
  void take_scalers(int segment);

  const Layout& layout_;
  const CodecPlan& plan_;
  PayloadRows rows_;
  std::vector<std::unique_ptr<Coder>> coders_;  // one per group of the plan
  std::vector<Message> messages_;               // by worker
};

}  // namespace terngrad
