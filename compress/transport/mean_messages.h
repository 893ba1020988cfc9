// MeanMessages: the aggregated shards of a mean as messages from their owners to all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "compress/route/shard_owners.h"
#include "compress/transport/downlink.h"
#include "compress/transport/mean_part.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Messages of kind kMean, one per shard. Order of calls in a step: begin, Downlink::encode, gather, Downlink::decode.
/// Storage is reused from step to step.
class MeanMessages {
 public:
  /// @param layout, plan, forms  kept by reference
  /// @param shards               slices of all shards; @param own  shards of this rank
  MeanMessages(const Layout& layout, const CodecPlan& plan, const DownlinkForms& forms,
               std::vector<std::vector<Slice>> shards, ShardRange own);
  MeanMessages(const MeanMessages&) = delete;
  MeanMessages& operator=(const MeanMessages&) = delete;

  /// Parts that have a payload, in order of shards.
  std::span<MeanPart> parts() { return parts_; }

  /// Begins the messages of this rank's shards, and points their parts to where payloads are written.
  void begin(const Downlink& downlink, const MessageContext& context);
  /// Sends this rank's shards to all ranks, and points all parts to the payloads received.
  /// @throws CommunicationError for a message that is damaged, foreign, or not the shard expected at its position, and
  /// for scalers other than those that this rank computes itself
  void gather(const Downlink& downlink, const MessageContext& context, Communicator& communicator);
  /// Bytes of a shard's message after gather, rounded up to a multiple of 8.
  std::int64_t bytes_of(std::size_t shard) const;

 private:
  /// Codec and format fields of a message record.
  struct RecordForm {
    std::uint8_t codec;
    std::uint8_t format;
  };
  RecordForm record_form(int segment) const;
  /// Checks a received record, and points its part to the payload.
  void take(const Message::Record& record, const Slice& slice, const Downlink& downlink, MeanPart* part) const;

  const Layout& layout_;
  const CodecPlan& plan_;
  const DownlinkForms& forms_;
  std::vector<std::vector<Slice>> shards_;
  ShardRange own_;
  std::vector<MeanPart> parts_;
  std::vector<std::vector<MeanPart*>> part_of_;  // [shard][slice]; null: the payload is empty
  std::vector<MessageWriter> writers_;           // one per own shard
  Parcels outgoing_, incoming_;
  Message message_;
};

}  // namespace terngrad
