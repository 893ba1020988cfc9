#include "compress/wire/gradient_transport.h"

#include <algorithm>
#include <utility>

#include "compress/codecs/float_codecs.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/worker_tree.h"

namespace terngrad {
namespace {

/// What sums travel as.
const FloatCodec& sum_codec() {
  static const FloatCodec fp32(FloatCodec::Width::kFloat32, 1);
  return fp32;
}

/// @throws CommunicationError unless the record holds `slice` in the codec's natural form
void check_record(const Message::Record& record, const Slice& slice, const Codec& codec, std::int64_t num_scalers) {
  if (record.encoded.slice != slice || record.codec != codec.wire_id() ||
      record.encoded.format != codec.record_format(PayloadForm::kNatural) ||
      static_cast<std::int64_t>(record.encoded.scalers.size()) != num_scalers) {
    TERNGRAD_THROW(CommunicationError, "it is not the expected ", codec.name(), " slice");
  }
  check_scalers(codec, record.encoded);
  codec.check(record.encoded);
}

}  // namespace

GradientTransport::GradientTransport(const Layout& layout, const CodecPlan& plan, std::vector<WorkerRange> ranks,
                                     int rank)
    : layout_(layout), plan_(plan), ranks_(std::move(ranks)), rank_(static_cast<std::size_t>(rank)) {
  for (const WorkerRange& range : ranks_) {
    num_workers_ += static_cast<std::size_t>(range.num_local_workers);
    subtrees_.push_back(subtrees_within(range.num_workers, range.first_local_worker, range.num_local_workers));
    all_subtrees_.insert(all_subtrees_.end(), subtrees_.back().begin(), subtrees_.back().end());
  }
  const double sum_bits = 32.0 * static_cast<double>(all_subtrees_.size());
  for (const CodecPlan::Group& group : plan.groups()) {
    const CodecTraits traits = group.codec->traits();
    const double bits = traits.bits_per_element * static_cast<double>(num_workers_);
    adds_.push_back(ranks_.size() > 1 && traits.sums_as_float && sum_bits < bits);
  }
}

bool GradientTransport::adds_any() const { return std::ranges::find(adds_, true) != adds_.end(); }

std::size_t GradientTransport::num_added(std::span<const Slice> slices) const {
  return static_cast<std::size_t>(std::ranges::count_if(slices, [&](const Slice& s) { return adds(s.segment); }));
}

GradientTransport::Counts GradientTransport::counts(std::span<const Slice> slices, int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t added = num_added(slices);
  return {.of_workers = added == 0 || added < slices.size() ? ranks_[r].num_local_workers : 0,
          .of_sums = added == 0 ? 0 : static_cast<int>(subtrees_[r].size())};
}

void GradientTransport::append(std::span<const std::span<const std::uint8_t>> messages, std::span<const Slice> slices,
                               const MessageContext& context, Parcels& out, Stream& stream) {
  const std::size_t added = num_added(slices);
  if (added == 0) {
    for (const auto& message : messages) out.append(message);
    return;
  }
  own_.resize(messages.size());
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(messages.size()), 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                   read_message(messages[i], MessageKind::kGradient, context, layout_, own_[i]);
                 }
               });
  if (added < slices.size()) {
    for (const Message& message : own_) append_rest(message, slices, context, out);
  }
  append_sums(slices, context, out, stream);
}

void GradientTransport::append_rest(const Message& message, std::span<const Slice> slices,
                                    const MessageContext& context, Parcels& out) {
  const std::size_t num_records = slices.size() - num_added(slices);
  std::int64_t num_scalers = 0;
  std::int64_t bytes = 0;
  for (const Message::Record& record : message.records) {
    if (adds(record.encoded.slice.segment)) continue;
    num_scalers += static_cast<std::int64_t>(record.encoded.scalers.size());
    bytes += static_cast<std::int64_t>(record.encoded.payload.size());
  }
  writer_.begin(MessageKind::kGradient, context, message.worker, num_records,
                max_message_bytes(num_records, num_scalers, bytes));
  for (const Message::Record& record : message.records) {
    const EncodedSlice& encoded = record.encoded;
    if (adds(encoded.slice.segment)) continue;
    std::uint8_t* payload = writer_.add(encoded.slice, record.codec, encoded.format, encoded.scalers,
                                        static_cast<std::int64_t>(encoded.payload.size()));
    std::ranges::copy(encoded.payload, payload);
  }
  out.append(writer_.finish());
}

void GradientTransport::append_sums(std::span<const Slice> slices, const MessageContext& context, Parcels& out,
                                    Stream& stream) {
  const std::size_t num_records = num_added(slices);
  std::int64_t bytes = 0;
  for (const Slice& slice : slices) {
    if (adds(slice.segment)) bytes += sum_codec().max_payload_bytes(slice, PayloadForm::kNatural);
  }
  std::size_t first = 0;  // of the subtree, among this process's workers
  for (const int count : subtrees_[rank_]) {
    const auto num_workers = static_cast<std::size_t>(count);
    writer_.begin(MessageKind::kPartialSum, context, ranks_[rank_].first_local_worker + static_cast<int>(first),
                  num_records, max_message_bytes(num_records, 0, bytes));
    for (std::size_t r = 0; r < slices.size(); ++r) {
      if (!adds(slices[r].segment)) continue;
      slices_.clear();
      for (std::size_t w = first; w < first + num_workers; ++w) slices_.push_back(own_[w].records.at(r).encoded);
      std::uint8_t* payload = writer_.add(slices[r], sum_codec().wire_id(), 0, {},
                                          sum_codec().max_payload_bytes(slices[r], PayloadForm::kNatural));
      const AggregateJob job{slices[r], slices_, reinterpret_cast<float*>(payload)};
      plan_.codec_of(slices[r].segment).aggregate({&job, 1}, AggregateUnit::kPartialSum, stream);
    }
    out.append(writer_.finish());
    first += num_workers;
  }
}

void GradientTransport::list_places(std::span<const std::vector<Slice>> parts) {
  parts_ = parts;
  messages_.resize(num_workers_ * parts.size());
  sums_.resize(all_subtrees_.size() * parts.size());
  places_.clear();
  std::size_t subtree = 0;  // the rank's first
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int first = ranks_[rank].first_local_worker;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const Counts number = counts(parts[part], static_cast<int>(rank));
      for (int worker = first; worker < first + number.of_workers; ++worker) {
        Message& message = messages_[static_cast<std::size_t>(worker) * parts.size() + part];
        places_.push_back({places_.size(), part, worker, false, &message});
      }
      int worker = first;
      for (std::size_t i = 0; i < static_cast<std::size_t>(number.of_sums); ++i) {
        places_.push_back({places_.size(), part, worker, true, &sums_[(subtree + i) * parts.size() + part]});
        worker += subtrees_[rank][i];
      }
    }
    subtree += subtrees_[rank].size();
  }
}

void GradientTransport::read(const Parcels& parcels, std::span<const std::vector<Slice>> parts,
                             const MessageContext& context, Stream& stream) {
  list_places(parts);
  if (parcels.count() != places_.size()) {
    TERNGRAD_THROW(CommunicationError, "[exchange] ", parcels.count(), " gradient messages came, expected ",
                   places_.size());
  }
  parallel_for(
      stream.num_threads(), static_cast<std::int64_t>(places_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          const Place& place = places_[i];
          read_message(parcels.parcel(place.parcel), place.is_sum ? MessageKind::kPartialSum : MessageKind::kGradient,
                       context, layout_, *place.message);
          check(place, parts_[place.part]);
        }
      });
}

void GradientTransport::check(const Place& place, std::span<const Slice> slices) const {
  const Message& message = *place.message;
  const std::size_t added = num_added(slices);
  const std::size_t expected = place.is_sum ? added : slices.size() - added;
  const char* kind = place.is_sum ? "sum from worker " : "worker ";
  if (message.worker != place.worker || message.records.size() != expected) {
    TERNGRAD_THROW(CommunicationError, "[exchange] message ", place.parcel, " is ", kind, message.worker, " with ",
                   message.records.size(), " slices, expected ", kind, place.worker, " with ", expected);
  }
  std::size_t record = 0;
  for (const Slice& slice : slices) {
    if (adds(slice.segment) != place.is_sum) continue;
    const Codec& codec = place.is_sum ? sum_codec() : plan_.codec_of(slice.segment);
    const std::int64_t num_scalers = place.is_sum ? 0 : codec.scaler_range(slice).count;
    try {
      check_record(message.records[record], slice, codec, num_scalers);
    } catch (const CommunicationError& error) {
      TERNGRAD_THROW(CommunicationError, "[exchange] slice ", record, " of the message of ", kind, place.worker,
                     ", of tensor '", layout_.segment(slice.segment).name, "': ", error.what());
    }
    ++record;
  }
}

std::int64_t GradientTransport::bytes_of(int worker, std::size_t part) const {
  const std::vector<Message::Record>& records =
      messages_[static_cast<std::size_t>(worker) * parts_.size() + part].records;
  MessageSize size(parts_[part].size());
  std::size_t record = 0;
  for (const Slice& slice : parts_[part]) {
    if (adds(slice.segment)) {
      const Codec& codec = plan_.codec_of(slice.segment);
      size.add(codec.scaler_range(slice).count, codec.max_payload_bytes(slice, PayloadForm::kNatural));
    } else {
      const EncodedSlice& encoded = records[record++].encoded;
      size.add(static_cast<std::int64_t>(encoded.scalers.size()), static_cast<std::int64_t>(encoded.payload.size()));
    }
  }
  return size.bytes();
}

GradientTransport::Source GradientTransport::append_slice(std::size_t part, std::size_t index,
                                                          std::vector<EncodedSlice>& out) const {
  const std::span<const Slice> slices = parts_[part];
  const bool is_sum = adds(slices[index].segment);
  const auto record = static_cast<std::size_t>(
      std::ranges::count_if(slices.first(index), [&](const Slice& before) { return adds(before.segment) == is_sum; }));
  const std::vector<Message>& messages = is_sum ? sums_ : messages_;
  const std::size_t num_messages = messages.size() / parts_.size();
  for (std::size_t m = 0; m < num_messages; ++m) {
    out.push_back(messages[m * parts_.size() + part].records[record].encoded);
  }
  return {num_messages, is_sum ? std::span<const int>(all_subtrees_) : std::span<const int>()};
}

}  // namespace terngrad
