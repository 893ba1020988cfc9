#include "compress/transport/mean_messages.h"

#include <algorithm>
#include <utility>

#include "compress/codecs/float_codecs.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/sparse/nonzeros.h"
#include "kernels/sparse/sparse_payload.h"

namespace terngrad {
namespace {

const FloatCodec& float_codec(MeanForm form) {
  static const FloatCodec fp32(FloatCodec::Width::kFloat32, 1);
  static const FloatCodec bf16(FloatCodec::Width::kBfloat16, 1);
  return form == MeanForm::kFloat32 ? fp32 : bf16;
}

}  // namespace

MeanMessages::MeanMessages(const Layout& layout, const CodecPlan& plan, const DownlinkForms& forms,
                           std::vector<std::vector<Slice>> shards, ShardRange own)
    : layout_(layout), plan_(plan), forms_(forms), shards_(std::move(shards)), own_(own), writers_(own.count) {
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    for (const Slice& slice : shards_[shard]) {
      const std::int64_t room = forms.max_bytes(slice);
      if (room == 0) continue;
      parts_.push_back({.slice = slice, .shard = static_cast<int>(shard), .is_own = own.has(shard), .bytes = room});
    }
  }
  MeanPart* next = parts_.data();
  for (const std::vector<Slice>& slices : shards_) {
    std::vector<MeanPart*>& of_shard = part_of_.emplace_back();
    for (const Slice& slice : slices) of_shard.push_back(forms.max_bytes(slice) == 0 ? nullptr : next++);
  }
}

MeanMessages::RecordForm MeanMessages::record_form(int segment) const {
  const MeanForm form = forms_.form(segment);
  switch (form) {
    case MeanForm::kFloat32:
    case MeanForm::kBfloat16:
      return {float_codec(form).wire_id(), 0};
    case MeanForm::kLanes:
    case MeanForm::kCodes:
      return {plan_.codec_of(segment).wire_id(), static_cast<std::uint8_t>(forms_.code_format(segment))};
    case MeanForm::kSparse:
      return {plan_.codec_of(segment).wire_id(), static_cast<std::uint8_t>(SparseFormat::kRuns)};
  }
  TERNGRAD_THROW(InvalidArgument, "[downlink] unknown form ", static_cast<int>(form));
}

void MeanMessages::begin(const Downlink& downlink, const MessageContext& context) {
  for (std::size_t shard = own_.first; shard < own_.end(); ++shard) {
    const std::vector<Slice>& slices = shards_[shard];
    std::int64_t num_scalers = 0;
    std::int64_t bytes = 0;
    for (const Slice& slice : slices) {
      num_scalers += static_cast<std::int64_t>(downlink.scalers(slice).size());
      bytes += forms_.max_bytes(slice);
    }
    MessageWriter& writer = writers_[shard - own_.first];
    writer.begin(MessageKind::kMean, context, static_cast<int>(shard), slices.size(),
                 max_message_bytes(slices.size(), num_scalers, bytes));
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const RecordForm form = record_form(slices[i].segment);
      MeanPart* const part = part_of_[shard][i];
      const std::int64_t room = forms_.max_bytes(slices[i]);
      std::uint8_t* const payload = writer.add(slices[i], form.codec, form.format, downlink.scalers(slices[i]), room);
      if (part == nullptr) continue;
      part->outgoing = payload;
      part->bytes = room;
    }
  }
}

void MeanMessages::take(const Message::Record& record, const Slice& slice, const Downlink& downlink,
                        MeanPart* part) const {
  const EncodedSlice& encoded = record.encoded;
  const RecordForm expected = record_form(slice.segment);
  const std::span<const float> scalers = downlink.scalers(slice);
  if (encoded.slice != slice || record.codec != expected.codec || encoded.format != expected.format ||
      encoded.scalers.size() != scalers.size()) {
    TERNGRAD_THROW(CommunicationError, "it is not the one of its shard");
  }
  if (!std::ranges::equal(encoded.scalers, scalers)) {
    TERNGRAD_THROW(CommunicationError, "its scalers are not those that were agreed on");
  }
  const MeanForm form = forms_.form(slice.segment);
  if (form == MeanForm::kSparse) {
    check_nonzeros(slice.count, forms_.max_places(slice), encoded.payload);
  } else if (form == MeanForm::kFloat32 || form == MeanForm::kBfloat16) {
    float_codec(form).check(encoded);
  } else {
    check_payload({forms_.code_format(slice.segment), encoded.payload, slice.count, forms_.num_workers(),
                   forms_.lane_levels(slice.segment)});
  }
  if (part == nullptr) return;
  part->incoming = encoded.payload.data();
  part->bytes = static_cast<std::int64_t>(encoded.payload.size());
}

void MeanMessages::gather(const Downlink& downlink, const MessageContext& context, Communicator& communicator) {
  outgoing_.clear();
  for (std::size_t shard = own_.first; shard < own_.end(); ++shard) {
    MessageWriter& writer = writers_[shard - own_.first];
    for (std::size_t i = 0; i < shards_[shard].size(); ++i) {
      if (part_of_[shard][i] != nullptr) writer.set_bytes(i, part_of_[shard][i]->bytes);
    }
    outgoing_.append(writer.finish());
  }
  communicator.all_gather(outgoing_, incoming_);
  if (incoming_.count() != shards_.size()) {
    TERNGRAD_THROW(CommunicationError, "[exchange] ", incoming_.count(), " aggregated shards came, expected ",
                   shards_.size());
  }
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    read_message(incoming_.parcel(shard), MessageKind::kMean, context, layout_, message_);
    if (message_.worker != static_cast<int>(shard)) {
      TERNGRAD_THROW(CommunicationError, "[exchange] aggregated shard ", shard, " came from the owner of shard ",
                     message_.worker);
    }
    const std::vector<Slice>& slices = shards_[shard];
    if (message_.records.size() != slices.size()) {
      TERNGRAD_THROW(CommunicationError, "[exchange] aggregated shard ", shard, " has ", message_.records.size(),
                     " slices, expected ", slices.size());
    }
    for (std::size_t i = 0; i < slices.size(); ++i) {
      try {
        take(message_.records[i], slices[i], downlink, part_of_[shard][i]);
      } catch (const CommunicationError& error) {
        TERNGRAD_THROW(CommunicationError, "[exchange] slice ", i, " of aggregated shard ", shard, ", of tensor '",
                       layout_.segment(slices[i].segment).name, "': ", error.what());
      }
    }
  }
}

std::int64_t MeanMessages::bytes_of(std::size_t shard) const { return parcel_bytes(incoming_.parcel(shard).size()); }

}  // namespace terngrad
