#include "compress/wire/gradient_transport.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "compress/codecs/float_codecs.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/scaler.h"
#include "kernels/tensor/worker_tree.h"

namespace terngrad {
namespace {

/// Codec of sums on the wire.
const FloatCodec& sum_codec() {
  static const FloatCodec fp32(FloatCodec::Width::kFloat32, 1);
  return fp32;
}

std::int64_t sum_bytes(const Slice& slice) { return sum_codec().max_payload_bytes(slice, PayloadForm::kNatural); }

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

/// Scalers with which a worker's slice is sent. @param coder  of the slice's group
std::span<const float> scalers_of(const Coder& coder, const Codec& codec, const Slice& slice, int worker) {
  const auto count = static_cast<std::size_t>(codec.scaler_range(slice).count);
  if (count == 0) return {};
  return coder.sent_scalers(worker).subspan(static_cast<std::size_t>(coder.first_scaler(slice)), count);
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

void GradientTransport::expect_parts(PayloadRows& rows, std::size_t first, std::size_t count) const {
  std::vector<int> num_payloads;
  for (std::size_t group = 0; group < adds_.size(); ++group) {
    num_payloads.push_back(static_cast<int>(adds_[group] ? all_subtrees_.size() : num_workers_));
    if (adds_[group]) rows.slots(group).summed_workers = all_subtrees_;
  }
  rows.aggregate_parts(first, count, num_payloads);
}

std::size_t GradientTransport::num_added(std::span<const Slice> slices) const {
  return static_cast<std::size_t>(std::ranges::count_if(slices, [&](const Slice& s) { return adds(s.segment); }));
}

GradientTransport::Counts GradientTransport::counts(std::span<const Slice> slices, int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t added = num_added(slices);
  return {.of_workers = added == 0 || added < slices.size() ? ranks_[r].num_local_workers : 0,
          .of_sums = added == 0 ? 0 : static_cast<int>(subtrees_[r].size())};
}

std::int64_t GradientTransport::worker_message_bytes(const PayloadRows& rows, std::size_t part,
                                                     std::size_t local_worker) const {
  const std::vector<Slice>& slices = rows.parts()[part];
  MessageSize size(slices.size() - num_added(slices));
  for (std::size_t index = 0; index < slices.size(); ++index) {
    if (adds(slices[index].segment)) continue;
    size.add(plan_.codec_of(slices[index].segment).scaler_range(slices[index]).count,
             static_cast<std::int64_t>(rows.payload(part, index, local_worker).size()));
  }
  return size.bytes();
}

std::int64_t GradientTransport::sum_message_bytes(std::span<const Slice> slices) const {
  MessageSize size(num_added(slices));
  for (const Slice& slice : slices) {
    if (adds(slice.segment)) size.add(0, sum_bytes(slice));
  }
  return size.bytes();
}

void GradientTransport::append(const PayloadRows& rows, Coders coders, std::size_t part, const MessageContext& context,
                               Parcels& out, Stream& stream) {
  const WorkerRange& own = ranks_[rank_];
  const Counts number = counts(rows.parts()[part], static_cast<int>(rank_));
  const std::size_t first = out.count();
  for (int local = 0; local < number.of_workers; ++local) {
    out.append_room(static_cast<std::uint64_t>(worker_message_bytes(rows, part, static_cast<std::size_t>(local))));
  }
  parallel_for(stream.num_threads(), number.of_workers, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t local = begin; local < end; ++local) {
      const std::span<std::uint8_t> message = out.parcel(first + static_cast<std::size_t>(local));
      write_worker(rows, coders, part, static_cast<std::size_t>(local), context, message);
      if (filter_) filter_(own.first_local_worker + static_cast<int>(local), message);
    }
  });
  if (number.of_sums > 0) append_sums(rows, coders, part, context, out, stream);
}

void GradientTransport::write_worker(const PayloadRows& rows, Coders coders, std::size_t part, std::size_t local_worker,
                                     const MessageContext& context, std::span<std::uint8_t> storage) const {
  const std::vector<Slice>& slices = rows.parts()[part];
  const int worker = ranks_[rank_].first_local_worker + static_cast<int>(local_worker);
  MessageWriter writer;
  writer.begin_in(storage, MessageKind::kGradient, context, worker, slices.size() - num_added(slices));
  for (std::size_t index = 0; index < slices.size(); ++index) {
    const Slice& slice = slices[index];
    if (adds(slice.segment)) continue;
    const auto group = static_cast<std::size_t>(plan_.group_of(slice.segment));
    const Codec& codec = *plan_.groups()[group].codec;
    const std::span<const std::uint8_t> payload = rows.payload(part, index, local_worker);
    std::uint8_t* const codes =
        writer.add(slice, codec.wire_id(), codec.record_format(rows.form()),
                   scalers_of(*coders[group], codec, slice, worker), static_cast<std::int64_t>(payload.size()));
    std::ranges::copy(payload, codes);
  }
  writer.finish();
}

void GradientTransport::append_sums(const PayloadRows& rows, Coders coders, std::size_t part,
                                    const MessageContext& context, Parcels& out, Stream& stream) {
  const std::vector<Slice>& slices = rows.parts()[part];
  int first = 0;  // first worker of the subtree, as a local number
  for (const int count : subtrees_[rank_]) {
    const auto bytes = static_cast<std::uint64_t>(sum_message_bytes(slices));
    writer_.begin_in(out.append_room(bytes), MessageKind::kPartialSum, context,
                     ranks_[rank_].first_local_worker + first, num_added(slices));
    for (std::size_t index = 0; index < slices.size(); ++index) {
      const Slice& slice = slices[index];
      if (!adds(slice.segment)) continue;
      std::uint8_t* const sum = writer_.add(slice, sum_codec().wire_id(), 0, {}, sum_bytes(slice));
      if (slice.count == 0) continue;
      const auto group = static_cast<std::size_t>(plan_.group_of(slice.segment));
      coders[group]->add_local(rows.encoded_index(part, index), first, count, reinterpret_cast<float*>(sum), stream);
    }
    writer_.finish();
    first += count;
  }
}

bool GradientTransport::is_local(int worker) const {
  const WorkerRange& own = ranks_[rank_];
  return worker >= own.first_local_worker && worker < own.first_local_worker + own.num_local_workers;
}

void GradientTransport::list_places(std::span<const std::vector<Slice>> parts) {
  num_parts_ = parts.size();
  messages_.resize(num_workers_ * parts.size());
  sums_.resize(all_subtrees_.size() * parts.size());
  places_.clear();
  std::size_t subtree = 0;  // first subtree of the rank
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int first = ranks_[rank].first_local_worker;
    const bool is_read = rank != rank_ || filter_;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const Counts number = counts(parts[part], static_cast<int>(rank));
      for (int worker = first; worker < first + number.of_workers; ++worker) {
        Message& message = messages_[static_cast<std::size_t>(worker) * parts.size() + part];
        places_.push_back({places_.size(), part, worker, false, is_read, &message});
      }
      int worker = first;
      for (std::size_t i = 0; i < static_cast<std::size_t>(number.of_sums); ++i) {
        places_.push_back({places_.size(), part, worker, true, true, &sums_[(subtree + i) * parts.size() + part]});
        worker += subtrees_[rank][i];
      }
    }
    subtree += subtrees_[rank].size();
  }
}

void GradientTransport::read(const Parcels& parcels, PayloadRows& rows, Coders coders, const MessageContext& context,
                             Stream& stream) {
  const std::span<const std::vector<Slice>> parts = rows.aggregated_parts();
  list_places(parts);
  if (parcels.count() != places_.size()) {
    TERNGRAD_THROW(CommunicationError, "[exchange] ", parcels.count(), " gradient messages came, expected ",
                   places_.size());
  }
  parallel_for(
      stream.num_threads(), static_cast<std::int64_t>(places_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          const Place& place = places_[i];
          if (!place.is_read) continue;
          read_message(parcels.parcel(place.parcel), place.is_sum ? MessageKind::kPartialSum : MessageKind::kGradient,
                       context, layout_, *place.message);
          check(place, parts[place.part], coders);
        }
      });
  take_scalers(coders);
  deliver(rows);
}

void GradientTransport::check_scalers_of(const EncodedSlice& encoded, const Codec& codec, Coder& coder,
                                         int worker) const {
  const std::span<const float> scalers = scalers_of(coder, codec, encoded.slice, worker);
  if (scalers.empty()) return;
  // Unshared scalers of other processes' workers are known only for non-finite tensors: their flag, received before,
  // has set these scalers to 0.
  const bool is_told = codec.sharing() != ScalerSharing::kNone || is_local(worker) ||
                       std::isnan(coder.local_row(worker)[static_cast<std::size_t>(coder.first_scaler(encoded.slice))]);
  if (is_told && std::memcmp(encoded.scalers.data(), scalers.data(), scalers.size_bytes()) != 0) {
    TERNGRAD_THROW(CommunicationError, "[", codec.name(), "] its scalers are not those that were agreed on");
  }
}

void GradientTransport::take_scalers(Coders coders) const {
  // NaN marks scalers that are not received yet.
  for (std::size_t group = 0; group < coders.size(); ++group) {
    if (plan_.groups()[group].codec->sharing() != ScalerSharing::kNone) continue;
    for (int worker = 0; worker < static_cast<int>(num_workers_); ++worker) {
      if (!is_local(worker)) std::ranges::fill(coders[group]->received_scalers(worker), canonical_nan());
    }
  }
  for (const Place& place : places_) {
    if (place.is_sum || is_local(place.worker)) continue;
    for (const Message::Record& record : place.message->records) {
      const EncodedSlice& encoded = record.encoded;
      const int segment = encoded.slice.segment;
      if (plan_.codec_of(segment).sharing() != ScalerSharing::kNone || encoded.scalers.empty()) continue;
      Coder& coder = *coders[static_cast<std::size_t>(plan_.group_of(segment))];
      const std::span<float> row =
          coder.received_scalers(place.worker)
              .subspan(static_cast<std::size_t>(coder.first_scaler(encoded.slice)), encoded.scalers.size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        // If a block is cut, its scaler is in two slices.
        if (!std::isnan(row[i]) && row[i] != encoded.scalers[i]) {
          TERNGRAD_THROW(CommunicationError, "[exchange] worker ", place.worker, "'s slices of tensor '",
                         layout_.segment(segment).name, "' have different scalers for one block");
        }
        row[i] = encoded.scalers[i];
      }
    }
  }
}

void GradientTransport::check(const Place& place, std::span<const Slice> slices, Coders coders) const {
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
    Coder& coder = *coders[static_cast<std::size_t>(plan_.group_of(slice.segment))];
    try {
      check_record(message.records[record], slice, codec, place.is_sum ? 0 : codec.scaler_range(slice).count);
      if (!place.is_sum) check_scalers_of(message.records[record].encoded, codec, coder, place.worker);
    } catch (const CommunicationError& error) {
      TERNGRAD_THROW(CommunicationError, "[exchange] slice ", record, " of the message of ", kind, place.worker,
                     ", of tensor '", layout_.segment(slice.segment).name, "': ", error.what());
    }
    ++record;
  }
}

void GradientTransport::deliver(PayloadRows& rows) const {
  std::vector<std::size_t> next(plan_.groups().size(), 0);  // per group: next incoming slot
  const std::span<const std::vector<Slice>> parts = rows.aggregated_parts();
  for (std::size_t part = 0; part < parts.size(); ++part) {
    std::size_t record_of_worker = 0;
    std::size_t record_of_sum = 0;
    for (std::size_t index = 0; index < parts[part].size(); ++index) {
      const Slice& slice = parts[part][index];
      const bool is_sum = adds(slice.segment);
      const std::size_t record = is_sum ? record_of_sum++ : record_of_worker++;
      if (slice.count == 0) continue;
      const auto group = static_cast<std::size_t>(plan_.group_of(slice.segment));
      PayloadSlots& slots = rows.slots(group);
      for (int k = 0; k < slots.num_payloads; ++k) {
        const Message& message = (is_sum ? sums_ : messages_)[static_cast<std::size_t>(k) * num_parts_ + part];
        const bool is_own = !is_sum && !filter_ && is_local(k);
        const auto local = static_cast<std::size_t>(k - ranks_[rank_].first_local_worker);
        const std::span<const std::uint8_t> payload =
            is_own ? rows.payload(rows.first_aggregated_part() + part, index, local)
                   : message.records[record].encoded.payload;
        slots.incoming[next[group]] = payload.data();
        slots.incoming_bytes[next[group]++] = static_cast<std::int64_t>(payload.size());
      }
    }
  }
}

std::int64_t GradientTransport::bytes_of(const PayloadRows& rows, int worker, std::size_t part) const {
  const std::size_t of_rows = rows.first_aggregated_part() + part;
  if (is_local(worker)) {
    return rows.message_bytes(of_rows, static_cast<std::size_t>(worker - ranks_[rank_].first_local_worker));
  }
  const std::vector<Slice>& slices = rows.parts()[of_rows];
  const std::vector<Message::Record>& records = messages_[static_cast<std::size_t>(worker) * num_parts_ + part].records;
  MessageSize size(slices.size());
  std::size_t record = 0;
  for (const Slice& slice : slices) {
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

}  // namespace terngrad
