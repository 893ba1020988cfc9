#include "compress/wire/gradient_message.h"

#include "kernels/runtime/errors.h"

namespace terngrad {

void read_gradient_message(std::span<const std::uint8_t> bytes, const Layout& layout, const CodecPlan& plan,
                           const MessageContext& context, Message& message) {
  read_message(bytes, MessageKind::kGradient, context, layout, message);
  if (static_cast<int>(message.records.size()) != layout.num_segments()) {
    TERNGRAD_THROW(CommunicationError, "[message] the gradient of worker ", message.worker, " has ",
                   message.records.size(), " slices, expected ", layout.num_segments());
  }
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const Message::Record& record = message.records[static_cast<std::size_t>(segment)];
    const Slice whole{segment, 0, layout.segment(segment).num_elements};
    const Codec& codec = plan.codec_of(segment);
    if (record.encoded.slice != whole || record.codec != codec.wire_id() ||
        record.encoded.format != codec.record_format(PayloadForm::kNatural) ||
        static_cast<std::int64_t>(record.encoded.scalers.size()) != codec.scaler_range(whole).count) {
      TERNGRAD_THROW(CommunicationError, "[message] slice ", segment, " of worker ", message.worker,
                     "'s gradient is not the whole tensor '", layout.segment(segment).name, "' in codec ",
                     codec.name());
    }
    check_scalers(codec, record.encoded);
    codec.check(record.encoded);
  }
}

void decode_gradient(const Message& message, const CodecPlan& plan, const TensorTable& out) {
  for (const Message::Record& record : message.records) {
    const Slice& slice = record.encoded.slice;
    if (slice.count == 0) continue;
    plan.codec_of(slice.segment).decode(record.encoded, {out.slice(slice), static_cast<std::size_t>(slice.count)});
  }
}

}  // namespace terngrad
