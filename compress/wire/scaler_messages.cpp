#include "compress/wire/scaler_messages.h"

#include <algorithm>
#include <cmath>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"

namespace terngrad {
namespace {

/// Formats of scaler records: all local scalers of a tensor, or one flag.
constexpr std::uint8_t kAllScalers = 0;
constexpr std::uint8_t kFlag = 1;

std::uint8_t format_of(const Codec& codec) { return codec.sharing() == ScalerSharing::kNone ? kFlag : kAllScalers; }

/// A tensor's part of a worker's row of scalers.
std::span<float> row_of(const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders, int segment,
                        int worker) {
  const auto count = static_cast<std::size_t>(plan.first_scaler(segment + 1) - plan.first_scaler(segment));
  if (count == 0) return {};
  Coder& coder = *coders[static_cast<std::size_t>(plan.group_of(segment))];
  return coder.local_row(worker).subspan(static_cast<std::size_t>(coder.first_scaler({segment, 0, 0})), count);
}

bool is_flag(float scaler) { return scaler == 0 || std::isnan(scaler); }

/// Copies the scalers of a record into a row. @returns false if no encoder can have written them
bool take(const Codec& codec, std::span<const float> scalers, std::span<float> row) {
  if (format_of(codec) == kFlag) {
    if (!std::ranges::all_of(scalers, is_flag)) return false;
    if (!scalers.empty()) std::ranges::fill(row, std::isnan(scalers[0]) ? canonical_nan() : 0.0f);
    return true;
  }
  if (std::ranges::any_of(scalers, [](float s) { return s < 0; })) return false;
  const float max = codec.traits().max_scaler;
  const bool is_finite = std::ranges::all_of(scalers, [max](float s) { return s <= max; });
  std::ranges::copy(scalers, row.begin());
  if (!is_finite) std::ranges::fill(row, canonical_nan());  // one flag for the whole tensor
  return true;
}

}  // namespace

std::int64_t num_told_scalers(const Layout& layout, const CodecPlan& plan, int segment) {
  const Codec& codec = plan.codec_of(segment);
  const std::int64_t all = codec.num_scalers(layout.segment(segment).num_elements);
  return format_of(codec) == kFlag ? std::min<std::int64_t>(all, 1) : all;
}

void append_scalers(const Layout& layout, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                    int worker, const MessageContext& context, Parcels& out) {
  const auto num_segments = static_cast<std::size_t>(layout.num_segments());
  MessageSize size(num_segments);
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    size.add(num_told_scalers(layout, plan, segment), 0);
  }
  MessageWriter writer;
  writer.begin_in(out.append_room(static_cast<std::uint64_t>(size.bytes())), MessageKind::kScalers, context, worker,
                  num_segments);
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const Codec& codec = plan.codec_of(segment);
    const std::span<const float> row = row_of(plan, coders, segment, worker);
    const auto count = static_cast<std::size_t>(num_told_scalers(layout, plan, segment));
    const std::uint8_t format = format_of(codec);
    // All of a tensor's scalers are NaN if one is, so the first one is enough.
    const float flag = count > 0 && std::isnan(row[0]) ? canonical_nan() : 0.0f;
    writer.add({segment, 0, layout.segment(segment).num_elements}, codec.wire_id(), format,
               format == kFlag ? std::span(&flag, count) : row, 0);
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
    const Codec& codec = plan.codec_of(segment);
    complete = encoded.slice == Slice{segment, 0, layout.segment(segment).num_elements} &&
               record.codec == codec.wire_id() && encoded.format == format_of(codec) && encoded.payload.empty() &&
               static_cast<std::int64_t>(encoded.scalers.size()) == num_told_scalers(layout, plan, segment) &&
               take(codec, encoded.scalers, row_of(plan, coders, segment, worker));
  }
  if (!complete) {
    TERNGRAD_THROW(CommunicationError, "[exchange] scaler message ", worker, " is not worker ", worker,
                   "'s complete list");
  }
}

}  // namespace terngrad
