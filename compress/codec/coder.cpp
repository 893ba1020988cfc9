#include "compress/codec/coder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compress/codec/host_copies.h"
#include "compress/codec/memory_update.h"
#include "compress/codec/sent_decoder.h"
#include "kernels/codes/tensor_rotation.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/averaged_residual.h"
#include "kernels/tensor/memory_update.h"

namespace terngrad {

namespace {

ScalerCombination combination_of(ScalerSharing sharing) {
  switch (sharing) {
    case ScalerSharing::kMean:
      return ScalerCombination::kMean;
    case ScalerSharing::kNone:
      return ScalerCombination::kOwn;
    default:
      return ScalerCombination::kMax;
  }
}

/// Updates the memory of a part of a tensor from what was sent of it. @param task  with `kept` of the whole tensor
void keep_by_sent(const MemoryUpdate& what, MemoryUpdateTask task, std::int64_t first, Stream& stream) {
  if (what.kind == MemoryUpdateKind::kAveraged) {
    return update_residual({.encoded = task.encoded,
                            .sent = task.sent,
                            .state = task.kept + residual_words(first),
                            .count = task.count,
                            .flag = task.flag,
                            .skip = task.skip},
                           what.average, stream);
  }
  task.kept += first;
  if (what.kind == MemoryUpdateKind::kMasked) task.rule = MemoryUpdateTask::Rule::kMask;
  if (what.kind == MemoryUpdateKind::kAdded) task.rule = MemoryUpdateTask::Rule::kAdd;
  update_memory(task, stream);
}

}  // namespace

Coder::Coder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots)
    : codec_(codec), setup_(setup), segments_(std::move(segments)), slots_(slots) {
  first_scaler_.push_back(0);
  for (const int segment : segments_) {
    const std::int64_t count = codec.num_scalers(setup_.layout.segment(segment).num_elements);
    for (std::int64_t s = 0; s < count; ++s) {
      places_.push_back({combination_of(codec.sharing()), setup_.number_of(segment), s == 0 ? 1u : 0u});
    }
    first_scaler_.push_back(num_scalers());
  }
  encoded_ = with_scalers(slots_.encoded);
  aggregated_ = with_scalers(slots_.aggregated);
  const Device& device = setup_.device;
  const std::int64_t n = setup_.workers.num_workers;
  places_on_device_ = Buffer<ScalerPlace>(num_scalers(), device);
  local_ = Buffer<float>(n * num_scalers(), device);
  own_ = Buffer<float>(n * num_scalers(), device);
  shared_ = Buffer<float>(num_scalers(), device);
  scales_ = Buffer<float>(num_scalers(), device);
  drawn_with_ = Buffer<float>(setup_.workers.num_local_workers * num_scalers(), device);
  if (codec.rotation() != 0) {
    rotation_ =
        std::make_unique<TensorRotation>(codec.rotation(), setup_.layout, segments_, setup_.workers.num_local_workers,
                                         setup_.seed, device, codec.tail_rotation());
  }
  Stream stream(device);
  copy<ScalerPlace>(places_, places_on_device_.span(), stream);
  // Rows of workers whose scalers are never received count as zeros.
  for (Buffer<float>* rows : {&local_, &own_, &drawn_with_}) fill_zero(rows->span(), stream);
  stream.synchronize();
}

Coder::~Coder() = default;

std::int64_t Coder::first_scaler(const Slice& slice) const {
  const auto found = std::ranges::lower_bound(segments_, slice.segment);
  TERNGRAD_REQUIRE(found != segments_.end() && *found == slice.segment, "[exchange] tensor ", slice.segment,
                   " is not in this group");
  return first_scaler_[static_cast<std::size_t>(found - segments_.begin())] + codec_.scaler_range(slice).first;
}

std::span<const float> Coder::sent_scalers(int worker) const {
  return codec_.sharing() != ScalerSharing::kNone ? shared_.span() : row(own_, worker);
}

std::span<float> Coder::received_scalers(int worker) {
  TERNGRAD_REQUIRE(codec_.sharing() == ScalerSharing::kNone, "[", codec_.name(), "] scalers are shared");
  const auto count = static_cast<std::size_t>(num_scalers());
  return own_.span().subspan(static_cast<std::size_t>(worker) * count, count);
}

std::span<float> Coder::local_row(int worker) {
  const auto count = static_cast<std::size_t>(num_scalers());
  return local_.span().subspan(static_cast<std::size_t>(worker) * count, count);
}

void Coder::add_local(std::size_t, int, int, float*, Stream&) {
  TERNGRAD_THROW(InvalidArgument, "[", codec_.name(), "] elements do not add up as floats");
}

std::span<const TensorTable> Coder::rotate(std::span<const TensorTable> gradients, const DeviceStep& step,
                                           Stream& stream) {
  if (rotation_ != nullptr) rotation_->rotate(gradients, step, stream);
  return rotated(gradients);
}

std::span<const TensorTable> Coder::rotated(std::span<const TensorTable> gradients) const {
  return rotation_ == nullptr ? gradients : rotation_->rotated();
}

void Coder::finish(const TensorTable& mean, std::span<const Slice> slices, const DeviceStep& step, Stream& stream) {
  if (rotation_ != nullptr) rotation_->turn_back(mean, slices, step, stream);
}

std::optional<StepKey> Coder::key_of_step(Stream& stream) const {
  if (rotation_ == nullptr) return {};
  return StepKey{setup_.seed, HostCopies::number_of(rotation_->step(), stream)};
}

EncodedSlice Coder::sent_slice(std::size_t encoded, std::size_t local_worker) const {
  const auto& [slice, first] = encoded_[encoded];
  const auto num_scalers = static_cast<std::size_t>(codec_.scaler_range(slice).count);
  const std::size_t slot = outgoing_index(encoded, local_worker);
  return {.slice = slice,
          .format = codec_.record_format(slots_.form),
          .scalers = sent_scalers(global(local_worker)).subspan(static_cast<std::size_t>(first), num_scalers),
          .payload = {slots_.outgoing[slot], static_cast<std::size_t>(slots_.outgoing_bytes[slot])},
          .key = rotation_ == nullptr ? std::nullopt : std::optional(StepKey{setup_.seed, rotation_->step().step}),
          .draw_offset = setup_.layout.segment(slice.segment).draw_offset};
}

void Coder::update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                          std::span<const TensorTable> kept, const std::uint32_t* skip, Stream& stream) {
  const bool is_exact = codec_.traits().is_exact;
  if (is_exact && what.kind != MemoryUpdateKind::kMasked) return;
  if (!is_exact && what.kind != MemoryUpdateKind::kEncoded) {
    if (stream.device().is_cuda()) return keep_by_sent_on_gpu(what, encoded, kept, skip, stream);
    if (skip == nullptr || *skip == 0) keep_by_sent_on_cpu(what, encoded, kept, stream);
    return;
  }
  for (std::size_t worker = 0; worker < encoded.size(); ++worker) {
    for (const int segment : segments_) {
      if (setup_.layout.segment(segment).num_elements == 0) continue;
      terngrad::update_memory({.encoded = encoded[worker].tensor(segment),
                               .kept = kept[worker].tensor(segment),
                               .count = setup_.layout.segment(segment).num_elements,
                               .flag = flag_of(worker, segment),
                               .skip = skip},
                              stream);
    }
  }
}

void Coder::keep_by_sent_on_gpu(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                                std::span<const TensorTable> kept, const std::uint32_t* skip, Stream& stream) {
  if (sent_decoder_ == nullptr) {
    sent_decoder_ = std::make_unique<SentDecoder>(codec_, setup_, slots_, num_scalers());
    for (const CodedSlice& coded : encoded_) encoded_first_scalers_.push_back(coded.first_scaler);
  }
  for (std::size_t worker = 0; worker < encoded.size(); ++worker) {
    const std::span<float* const> sent =
        sent_decoder_->run(worker, sent_scalers(global(worker)).data(), encoded_first_scalers_, stream);
    if (rotation_ != nullptr) rotation_->turn_back(sent, slots_.encoded, stream);
    for (std::size_t i = 0; i < encoded_.size(); ++i) {
      const Slice& slice = encoded_[i].slice;
      if (slice.count == 0) continue;
      keep_by_sent(what,
                   {.encoded = encoded[worker].slice(slice),
                    .sent = sent[i],
                    .kept = kept[worker].tensor(slice.segment),
                    .count = slice.count,
                    .flag = flag_of(worker, slice.segment),
                    .skip = skip},
                   slice.first, stream);
    }
  }
}

void Coder::keep_by_sent_on_cpu(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                                std::span<const TensorTable> kept, Stream& stream) {
  // Tensor sizes differ by orders of magnitude, so work is divided into chunks of all tensors.
  struct Chunk {
    std::size_t worker;
    std::size_t slice;
    std::int64_t first;
  };
  std::vector<Chunk> chunks;
  for (std::size_t worker = 0; worker < encoded.size(); ++worker) {
    for (std::size_t i = 0; i < encoded_.size(); ++i) {
      if (encoded_[i].slice.count == 0 || std::isnan(*flag_of(worker, encoded_[i].slice.segment))) continue;
      for (std::int64_t first = 0; first < encoded_[i].slice.count; first += kChunkElements) {
        chunks.push_back({worker, i, first});
      }
    }
  }
  parallel_for(
      stream.num_threads(), static_cast<std::int64_t>(chunks.size()), 4, [&](std::int64_t begin, std::int64_t end) {
        // Decoded one chunk at a time, while it is in the cache.
        std::array<float, kChunkElements> sent;
        Stream own;
        for (const Chunk& chunk :
             std::span(chunks).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))) {
          const Slice& slice = encoded_[chunk.slice].slice;
          const std::int64_t count = std::min(kChunkElements, slice.count - chunk.first);
          codec_.decode_part(sent_slice(chunk.slice, chunk.worker), chunk.first,
                             std::span(sent).first(static_cast<std::size_t>(count)));
          keep_by_sent(what,
                       {.encoded = encoded[chunk.worker].slice(slice) + chunk.first,
                        .sent = sent.data(),
                        .kept = kept[chunk.worker].tensor(slice.segment),
                        .count = count},
                       slice.first + chunk.first, own);
        }
      });
}

float Coder::decode_sent(int local_worker, int segment, std::span<float> out, Stream& stream) const {
  const bool on_cpu = setup_.device.is_cpu();
  std::vector<float> row(on_cpu ? 0 : static_cast<std::size_t>(num_scalers()));
  std::vector<std::uint64_t> payload;
  if (!on_cpu) {
    copy<float>(sent_scalers(global(static_cast<std::size_t>(local_worker))), std::span<float>(row), stream);
    stream.synchronize();
  }
  float max = 0;
  for (std::size_t i = 0; i < encoded_.size(); ++i) {
    const Slice& slice = encoded_[i].slice;
    if (slice.segment != segment) continue;
    const auto worker = static_cast<std::size_t>(local_worker);
    const EncodedSlice sent = on_cpu ? sent_slice(i, worker) : sent_slice_on_gpu(i, worker, row, payload, stream);
    codec_.decode(sent, out.subspan(static_cast<std::size_t>(slice.first), static_cast<std::size_t>(slice.count)));
    for (const float scaler : sent.scalers) max = std::max(max, scaler);
  }
  return max;
}

EncodedSlice Coder::sent_slice_on_gpu(std::size_t encoded, std::size_t local_worker, std::span<const float> row,
                                      std::vector<std::uint64_t>& payload, Stream& stream) const {
  const Slice& slice = encoded_[encoded].slice;
  const auto bytes = static_cast<std::size_t>(codec_.max_payload_bytes(slice, slots_.form));
  payload.resize((bytes + 7) / 8);
  const std::span<std::uint8_t> on_host(reinterpret_cast<std::uint8_t*>(payload.data()), bytes);
  copy<std::uint8_t>({outgoing(encoded, local_worker), bytes}, on_host, stream);
  stream.synchronize();
  return {.slice = slice,
          .format = codec_.record_format(slots_.form),
          .scalers = row.subspan(static_cast<std::size_t>(encoded_[encoded].first_scaler),
                                 static_cast<std::size_t>(codec_.scaler_range(slice).count)),
          .payload = on_host,
          .key = key_of_step(stream),
          .draw_offset = setup_.layout.segment(slice.segment).draw_offset};
}

std::vector<Coder::CodedSlice> Coder::with_scalers(std::span<const Slice> slices) const {
  std::vector<CodedSlice> result;
  for (const Slice& slice : slices) result.push_back({slice, first_scaler(slice)});
  return result;
}

std::span<float> Coder::local_rows() {
  return local_.span().subspan(static_cast<std::size_t>(setup_.workers.first_local_worker * num_scalers()),
                               static_cast<std::size_t>(setup_.workers.num_local_workers * num_scalers()));
}

DeviceGather Coder::gather_scalers(std::span<const WorkerRange> ranks) {
  const std::int64_t row_bytes = num_scalers() * static_cast<std::int64_t>(sizeof(float));
  DeviceGather gather{.buffer = reinterpret_cast<std::uint8_t*>(local_.data()), .parts = {}};
  for (const WorkerRange& range : ranks) {
    gather.parts.push_back({range.first_local_worker * row_bytes, range.num_local_workers * row_bytes});
  }
  return gather;
}

void Coder::combine_scalers(NonfiniteReport* report, std::uint32_t* skip, const std::uint32_t* stop_latched,
                            Stream& stream) {
  if (places_.empty()) return;
  const CodecTraits traits = codec_.traits();
  terngrad::combine_scalers({.places = places_on_device_.data(),
                             .num_scalers = num_scalers(),
                             .num_workers = setup_.workers.num_workers,
                             .max_sum = max_sum(traits.levels, traits.votes, setup_.workers.num_workers),
                             .first_local_worker = setup_.workers.first_local_worker,
                             .num_local_workers = setup_.workers.num_local_workers,
                             .local = local_.data(),
                             .own = own_.data(),
                             .shared = shared_.data(),
                             .scales = scales_.data(),
                             .drawn_with = drawn_with_.data(),
                             .report = report,
                             .skip = skip,
                             .stop_latched = stop_latched},
                            stream);
}

}  // namespace terngrad
