// What one worker measures and sends with any codec, and what becomes of the messages.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "compress/codecs/codec.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::testing {

inline constexpr std::uint64_t kSeed = 7;
inline constexpr std::uint64_t kStep = 3;

/// Three chunks, the last one short; an empty tensor; a few elements.
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

inline std::vector<float> measured(const Codec& codec, const Layout& layout, const Tensors& tensors) {
  std::vector<float> scalers(static_cast<std::size_t>(first_scaler(codec, layout, layout.num_segments())));
  Stream stream(Device::cpu(), 2);
  codec.make_encoder(layout, all_segments(layout))
      ->measure(tensors.table, scalers, {kSeed, kStep, 0, DrawPurpose::kTernarize}, stream);
  return scalers;
}

/// What one worker sends of some slices.
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
inline Sent send(const Codec& codec, const Layout& layout, const Tensors& tensors, std::uint32_t worker,
                 const std::vector<Slice>& slices, std::vector<float> shared = {},
                 PayloadForm form = PayloadForm::kNatural, int num_threads = 2, std::uint64_t step = kStep) {
  Sent sent;
  Stream stream(Device::cpu(), num_threads);
  const DrawKey key{kSeed, step, worker, DrawPurpose::kTernarize};
  const auto encoder = codec.make_encoder(layout, all_segments(layout));
  sent.local.resize(static_cast<std::size_t>(first_scaler(codec, layout, layout.num_segments())));
  encoder->measure(tensors.table, sent.local, key, stream);
  sent.shared = std::move(shared);
  if (sent.shared.empty()) {
    for (const float s : sent.local) sent.shared.push_back(std::isnan(s) ? 0.0f : s);
  }
  std::vector<EncodeJob> jobs;
  for (const Slice& slice : slices) {
    const Codec::ScalerRange range = codec.scaler_range(slice);
    const auto first = static_cast<std::size_t>(first_scaler(codec, layout, slice.segment) + range.first);
    const auto count = static_cast<std::size_t>(range.count);
    const auto bytes = static_cast<std::size_t>(codec.max_payload_bytes(slice, form));
    sent.words.emplace_back((bytes + 7) / 8, ~std::uint64_t{0});  // what encode leaves alone stays visible
    jobs.push_back({.slice = slice,
                    .local = std::span<const float>(sent.local).subspan(first, count),
                    .shared = std::span<const float>(sent.shared).subspan(first, count),
                    .payload = reinterpret_cast<std::uint8_t*>(sent.words.back().data())});
  }
  encoder->encode(tensors.table, jobs, form, key, stream);
  for (const EncodeJob& job : jobs) {
    sent.slices.push_back({.slice = job.slice,
                           .format = codec.record_format(form),
                           .scalers = job.shared,
                           .payload = {job.payload, static_cast<std::size_t>(job.payload_bytes)}});
  }
  return sent;
}

inline std::vector<float> aggregated(const Codec& codec, const std::vector<EncodedSlice>& messages,
                                     AggregateUnit unit = AggregateUnit::kMean, int num_threads = 2) {
  std::vector<float> out(static_cast<std::size_t>(messages[0].slice.count), -123456.0f);
  Stream stream(Device::cpu(), num_threads);
  const AggregateJob job{messages[0].slice, messages, out.data()};
  codec.aggregate({&job, 1}, unit, stream);
  return out;
}

}  // namespace terngrad::testing
