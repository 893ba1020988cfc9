#include "compress/wire/scaler_messages.h"

#include <algorithm>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"

namespace terngrad {
namespace {

/// A tensor's scalers in a worker's rows.
std::span<float> row_of(const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders, int segment,
                        int worker) {
  const auto count = static_cast<std::size_t>(plan.first_scaler(segment + 1) - plan.first_scaler(segment));
  if (count == 0) return {};
  Coder& coder = *coders[static_cast<std::size_t>(plan.group_of(segment))];
  return coder.local_row(worker).subspan(static_cast<std::size_t>(coder.first_scaler({segment, 0, 0})), count);
}

}  // namespace

void append_scalers(const Layout& layout, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                    int worker, const MessageContext& context, Parcels& out) {
  const auto num_segments = static_cast<std::size_t>(layout.num_segments());
  MessageSize size(num_segments);
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    size.add(plan.first_scaler(segment + 1) - plan.first_scaler(segment), 0);
  }
  MessageWriter writer;
  writer.begin_in(out.append_room(static_cast<std::uint64_t>(size.bytes())), MessageKind::kScalers, context, worker,
                  num_segments);
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    writer.add({segment, 0, layout.segment(segment).num_elements}, plan.codec_of(segment).wire_id(), 0,
               row_of(plan, coders, segment, worker), 0);
  }
  writer.finish();
}

void read_scalers(const Layout& layout, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                  int worker, const MessageContext& context, std::span<const std::uint8_t> bytes, Message& message) {
  read_message(bytes, MessageKind::kScalers, context, layout, message);
  bool complete = message.worker == worker && static_cast<int>(message.records.size()) == layout.num_segments();
  for (int segment = 0; complete && segment < layout.num_segments(); ++segment) {
    const Message::Record& record = message.records[static_cast<std::size_t>(segment)];
    const EncodedSlice& encoded = record.encoded;
    const std::span<float> row = row_of(plan, coders, segment, worker);
    complete = encoded.slice == Slice{segment, 0, layout.segment(segment).num_elements} &&
               record.codec == plan.codec_of(segment).wire_id() && encoded.format == 0 && encoded.payload.empty() &&
               encoded.scalers.size() == row.size() &&
               std::ranges::none_of(encoded.scalers, [](float s) { return s < 0; });
    if (!complete) break;
    const float max = plan.codec_of(segment).traits().max_scaler;
    const bool is_finite = std::ranges::all_of(encoded.scalers, [max](float s) { return s <= max; });
    std::ranges::copy(encoded.scalers, row.begin());
    if (!is_finite) std::ranges::fill(row, canonical_nan());  // a tensor counts as a whole
  }
  if (!complete) {
    TERNGRAD_THROW(CommunicationError, "[exchange] scaler message ", worker, " is not worker ", worker,
                   "'s complete list");
  }
}

}  // namespace terngrad
