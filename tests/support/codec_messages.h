// Encodes one worker's messages with any codec, and aggregates messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/coder.h"
#include "support/coder_scalers.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::testing {

inline constexpr std::uint64_t kSeed = 7;
inline constexpr std::uint64_t kStep = 3;

/// A tensor of three chunks (the last one short), an empty one and one of 7 elements.
inline Layout small_layout() {
  Layout layout;
  layout.add("big", {9000});
  layout.add("empty", {0});
  layout.add("few", {7});
  return layout;
}

inline std::int64_t first_scaler(const Codec& codec, const Layout& layout, int segment) {
  std::int64_t first = 0;
  for (int t = 0; t < segment; ++t) first += codec.num_scalers(layout.segment(t).num_elements);
  return first;
}

inline std::vector<int> all_segments(const Layout& layout) {
  std::vector<int> segments;
  for (int t = 0; t < layout.num_segments(); ++t) segments.push_back(t);
  return segments;
}

inline CoderSetup setup_of(const Layout& layout, int worker) {
  return {.layout = layout, .workers = one_of_two(worker), .seed = kSeed, .drops_nonfinite_steps = false};
}

inline std::vector<float> measured(const Codec& codec, const Layout& layout, const Tensors& tensors) {
  Stream stream(Device::cpu(), 2);
  PayloadSlots slots;
  const auto coder = codec.make_coder(setup_of(layout, 0), all_segments(layout), slots);
  coder->measure({&tensors.table, 1}, {kStep, nullptr}, stream);
  return {coder->local_row(0).begin(), coder->local_row(0).end()};
}

/// One worker's messages, one per slice.
struct Sent {
  std::vector<float> local;
  std::vector<float> shared;
  std::vector<std::vector<std::uint64_t>> words;
  std::vector<EncodedSlice> slices;

  reference::Bytes payload(std::size_t slice) const {
    return {slices[slice].payload.begin(), slices[slice].payload.end()};
  }
};

/// Measures and encodes. @param shared  empty: the worker's own scalers, 0 for NaN
inline Sent send(const Codec& codec, const Layout& layout, const Tensors& tensors, std::uint32_t number,
                 const std::vector<Slice>& slices, const std::vector<float>& shared = {},
                 PayloadForm form = PayloadForm::kNatural, int num_threads = 2, std::uint64_t step = kStep) {
  const int worker = static_cast<int>(number);
  Sent sent;
  Stream stream(Device::cpu(), num_threads);
  PayloadSlots slots{.form = form, .encoded = slices, .outgoing_bytes = std::vector<std::int64_t>(slices.size())};
  for (const Slice& slice : slices) {
    const auto bytes = static_cast<std::size_t>(codec.max_payload_bytes(slice, form));
    sent.words.emplace_back((bytes + 7) / 8, ~std::uint64_t{0});  // canary for bytes that encode leaves unwritten
    slots.outgoing.push_back(reinterpret_cast<std::uint8_t*>(sent.words.back().data()));
  }
  const auto coder = codec.make_coder(setup_of(layout, worker), all_segments(layout), slots);
  coder->measure({&tensors.table, 1}, {step, nullptr}, stream);
  sent.local.assign(coder->local_row(worker).begin(), coder->local_row(worker).end());
  combine_with(*coder, codec, worker, shared, stream);
  coder->encode({&tensors.table, 1}, {step, nullptr}, stream);
  sent.shared.assign(coder->sent_scalers(worker).begin(), coder->sent_scalers(worker).end());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Codec::ScalerRange range = codec.scaler_range(slices[i]);
    const auto first = static_cast<std::size_t>(first_scaler(codec, layout, slices[i].segment) + range.first);
    sent.slices.push_back(
        {.slice = slices[i],
         .format = codec.record_format(form),
         .scalers = std::span<const float>(sent.shared).subspan(first, static_cast<std::size_t>(range.count)),
         .payload = {slots.outgoing[i], static_cast<std::size_t>(slots.outgoing_bytes[i])},
         .key = StepKey{kSeed, step},
         .draw_offset = layout.segment(slices[i].segment).draw_offset});
  }
  return sent;
}

/// Aggregates messages of one slice.
/// @param summed_workers  number of workers summed in each message; empty: one each
/// @param num_workers     number of workers of the run; 0: number of messages
inline std::vector<float> aggregated(const Codec& codec, const std::vector<EncodedSlice>& messages,
                                     AggregateUnit unit = AggregateUnit::kMean, int num_threads = 2,
                                     const std::vector<int>& summed_workers = {}, int num_workers = 0) {
  if (num_workers == 0) num_workers = static_cast<int>(messages.size());
  const Slice& slice = messages[0].slice;
  const StepKey key = messages[0].key.value_or(StepKey{});
  Layout layout;
  // Earlier segments reproduce the draw offsets of the messages' layout.
  for (int t = 0; t < slice.segment; ++t) {
    layout.add("before" + std::to_string(t), {t == 0 ? messages[0].draw_offset : 0});
  }
  layout.add("w", {slice.first + slice.count});
  Stream stream(Device::cpu(), num_threads);
  PayloadSlots slots{.form = messages[0].format == codec.record_format(PayloadForm::kNatural) ? PayloadForm::kNatural
                                                                                              : PayloadForm::kLanes,
                     .aggregated = {slice},
                     .num_payloads = static_cast<int>(messages.size()),
                     .summed_workers = summed_workers};
  for (const EncodedSlice& message : messages) {
    slots.incoming.push_back(message.payload.data());
    slots.incoming_bytes.push_back(static_cast<std::int64_t>(message.payload.size()));
  }
  const CoderSetup setup{.layout = layout,
                         .workers = {.num_workers = num_workers, .first_local_worker = 0, .num_local_workers = 0},
                         .seed = key.seed};
  const auto coder = codec.make_coder(setup, {slice.segment}, slots);
  for (int w = 0; w < num_workers; ++w) {
    const std::size_t message = std::min(static_cast<std::size_t>(w), messages.size() - 1);
    std::ranges::copy(messages[message].scalers, coder->local_row(w).begin() + codec.scaler_range(slice).first);
  }
  NonfiniteReport report;
  coder->combine_scalers(&report, nullptr, nullptr, stream);
  std::vector<float> out(static_cast<std::size_t>(slice.first + slice.count), -123456.0f);
  std::vector<float*> tensors(static_cast<std::size_t>(slice.segment) + 1, out.data());
  const TensorTable table(layout, tensors);
  coder->aggregate(table, unit, stream);
  if (unit == AggregateUnit::kMean) coder->finish(table, {&slice, 1}, {key.step, nullptr}, stream);
  return {out.begin() + slice.first, out.end()};
}

}  // namespace terngrad::testing
