#include "compress/exchange/exchange_bytes.h"

#include "compress/comm/communicator.h"
#include "compress/wire/scaler_messages.h"
#include "compress/wire/wire_format.h"

namespace terngrad {
std::int64_t scalers_message_bytes(const Layout& layout, const CodecPlan& plan) {
  MessageSize size(static_cast<std::size_t>(layout.num_segments()));
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    size.add(num_told_scalers(layout, plan, segment), 0);
  }
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes()));
}

std::int64_t gradient_message_bytes(const CodecPlan& plan, std::span<const Slice> slices) {
  MessageSize size(slices.size());
  for (const Slice& slice : slices) {
    const Codec& codec = plan.codec_of(slice.segment);
    size.add(codec.scaler_range(slice).count, codec.max_payload_bytes(slice, PayloadForm::kNatural));
  }
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes()));
}

std::int64_t mean_message_bytes(const CodecPlan& plan, const DownlinkForms& forms, std::span<const Slice> slices) {
  MessageSize size(slices.size());
  for (const Slice& slice : slices) {
    const bool has_scalers = forms.unit(slice.segment) == AggregateUnit::kSums;
    size.add(has_scalers ? plan.codec_of(slice.segment).scaler_range(slice).count : 0, forms.max_bytes(slice));
  }
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes()));
}

std::int64_t gathered_bytes(const CodecPlan& plan, const Route& route) {
  return route.parts[0].empty() ? 0 : gradient_message_bytes(plan, route.parts[0]);
}

std::int64_t lane_bytes(const CodecPlan& plan, std::span<const Slice> slices) {
  std::int64_t bytes = 0;
  for (const Slice& slice : slices) {
    bytes += plan.codec_of(slice.segment).max_payload_bytes(slice, PayloadForm::kLanes);
  }
  return bytes;
}

}  // namespace terngrad
