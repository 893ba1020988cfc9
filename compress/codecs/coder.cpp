#include "compress/codecs/coder.h"

#include <algorithm>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

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
  Stream stream(device);
  copy<ScalerPlace>(places_, places_on_device_.span(), stream);
  // Rows of workers that a process never hears of count as zero.
  for (Buffer<float>* rows : {&local_, &own_, &drawn_with_}) fill_zero(rows->span(), stream);
  stream.synchronize();
}

std::int64_t Coder::first_scaler(const Slice& slice) const {
  const auto found = std::ranges::lower_bound(segments_, slice.segment);
  TERNGRAD_REQUIRE(found != segments_.end() && *found == slice.segment, "[exchange] tensor ", slice.segment,
                   " is not in this group");
  return first_scaler_[static_cast<std::size_t>(found - segments_.begin())] + codec_.scaler_range(slice).first;
}

std::span<const float> Coder::sent_scalers(int worker) const {
  return codec_.sharing() != ScalerSharing::kNone ? shared_.span() : row(own_, worker);
}

std::span<float> Coder::local_row(int worker) {
  const auto count = static_cast<std::size_t>(num_scalers());
  return local_.span().subspan(static_cast<std::size_t>(worker) * count, count);
}

void Coder::add_local(std::size_t, int, int, float*, Stream&) {
  TERNGRAD_THROW(InvalidArgument, "[", codec_.name(), "] elements do not add up as floats");
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
  terngrad::combine_scalers({.places = places_on_device_.data(),
                             .num_scalers = num_scalers(),
                             .num_workers = setup_.workers.num_workers,
                             .levels = codec_.traits().levels,
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
