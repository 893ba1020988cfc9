#include "compress/wire/payload_rows.h"

#include <utility>

#include "compress/wire/wire_format.h"

namespace terngrad {

PayloadRows::PayloadRows(const CodecPlan& plan, const WorkerRange& workers, std::vector<std::vector<Slice>> parts,
                         PayloadForm form)
    : plan_(plan), workers_(workers), parts_(std::move(parts)), form_(form), slots_(plan.groups().size()) {
  for (PayloadSlots& slots : slots_) slots.form = form;
  std::int64_t row_bytes = 0;
  for (const std::vector<Slice>& slices : parts_) {
    std::vector<std::size_t>& encoded = encoded_.emplace_back();
    std::vector<std::int64_t>& offsets = offsets_.emplace_back();
    for (const Slice& slice : slices) {
      PayloadSlots& slots = slots_[static_cast<std::size_t>(plan.group_of(slice.segment))];
      const std::int64_t room = plan.codec_of(slice.segment).max_payload_bytes(slice, form);
      encoded.push_back(room == 0 ? kNone : slots.encoded.size());
      offsets.push_back(row_bytes);
      if (room == 0) continue;
      slots.encoded.push_back(slice);
      row_bytes += parcel_bytes(static_cast<std::uint64_t>(room));
    }
  }
  row_words_ = row_bytes / static_cast<std::int64_t>(sizeof(std::uint64_t));
  words_ = Buffer<std::uint64_t>(workers.num_local_workers * row_words_);
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    for (std::size_t index = 0; index < parts_[part].size(); ++index) {
      if (encoded_[part][index] == kNone) continue;
      PayloadSlots& slots = slots_[static_cast<std::size_t>(plan.group_of(parts_[part][index].segment))];
      for (int worker = 0; worker < workers.num_local_workers; ++worker) {
        auto* const begin = reinterpret_cast<std::uint8_t*>(row(static_cast<std::size_t>(worker)).data());
        slots.outgoing.push_back(begin + offsets_[part][index]);
      }
    }
  }
  for (PayloadSlots& slots : slots_) slots.outgoing_bytes.resize(slots.outgoing.size());
}

std::span<std::uint64_t> PayloadRows::row(std::size_t local_worker) {
  const auto words = static_cast<std::size_t>(row_words_);
  return words_.span().subspan(local_worker * words, words);
}

std::span<const std::uint8_t> PayloadRows::payload(std::size_t part, std::size_t index,
                                                   std::size_t local_worker) const {
  const std::size_t encoded = encoded_[part][index];
  if (encoded == kNone) return {};
  const PayloadSlots& slots = slots_[static_cast<std::size_t>(plan_.group_of(parts_[part][index].segment))];
  const std::size_t slot = encoded * static_cast<std::size_t>(workers_.num_local_workers) + local_worker;
  return {slots.outgoing[slot], static_cast<std::size_t>(slots.outgoing_bytes[slot])};
}

std::int64_t PayloadRows::message_bytes(std::size_t part, std::size_t local_worker) const {
  MessageSize size(parts_[part].size());
  for (std::size_t index = 0; index < parts_[part].size(); ++index) {
    const Slice& slice = parts_[part][index];
    size.add(plan_.codec_of(slice.segment).scaler_range(slice).count,
             static_cast<std::int64_t>(payload(part, index, local_worker).size()));
  }
  return size.bytes();
}

void PayloadRows::aggregate_parts(std::size_t first, std::size_t count, std::span<const int> num_payloads) {
  first_aggregated_ = first;
  num_aggregated_ = count;
  for (std::size_t part = first; part < first + count; ++part) {
    for (const Slice& slice : parts_[part]) {
      const auto group = static_cast<std::size_t>(plan_.group_of(slice.segment));
      if (slice.count > 0) slots_[group].aggregated.push_back(slice);
    }
  }
  for (std::size_t group = 0; group < slots_.size(); ++group) {
    PayloadSlots& slots = slots_[group];
    slots.num_payloads = num_payloads[group];
    slots.incoming.resize(slots.aggregated.size() * static_cast<std::size_t>(slots.num_payloads));
    slots.incoming_bytes.resize(slots.incoming.size());
  }
}

void PayloadRows::loop_back() {
  std::vector<std::size_t> next(slots_.size(), 0);  // per group: next incoming slot
  for (std::size_t part = first_aggregated_; part < first_aggregated_ + num_aggregated_; ++part) {
    for (std::size_t index = 0; index < parts_[part].size(); ++index) {
      if (parts_[part][index].count == 0) continue;
      const auto group = static_cast<std::size_t>(plan_.group_of(parts_[part][index].segment));
      PayloadSlots& slots = slots_[group];
      for (int worker = 0; worker < workers_.num_local_workers; ++worker) {
        const std::span<const std::uint8_t> sent = payload(part, index, static_cast<std::size_t>(worker));
        slots.incoming[next[group]] = sent.data();
        slots.incoming_bytes[next[group]++] = static_cast<std::int64_t>(sent.size());
      }
    }
  }
}

}  // namespace terngrad
