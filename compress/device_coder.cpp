#include "compress/device_coder.h"

#include <algorithm>

#include "kernels/copy.h"
#include "kernels/errors.h"

namespace terngrad {
namespace {

/// Rows of `row_bytes` for each worker, of which each rank fills its workers'.
DeviceGather gather_rows(void* rows, std::int64_t row_bytes, std::span<const WorkerRange> ranks) {
  DeviceGather gather{.buffer = static_cast<std::uint8_t*>(rows), .parts = {}};
  for (const WorkerRange& range : ranks) {
    gather.parts.push_back({range.first_local_worker * row_bytes, range.num_local_workers * row_bytes});
  }
  return gather;
}

}  // namespace

DeviceCoder::DeviceCoder(const DeviceExchangeSetup& setup, std::vector<int> segments,
                         std::span<const std::int64_t> scalers_of, std::span<const std::int64_t> bytes_of,
                         ScalerCombination combination)
    : setup_(setup), segments_(std::move(segments)) {
  first_scaler_.push_back(0);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    for (std::int64_t s = 0; s < scalers_of[i]; ++s) {
      places_.push_back({combination, static_cast<std::uint32_t>(segments_[i]), s == 0 ? 1u : 0u});
    }
    first_scaler_.push_back(num_scalers());
    payload_offset_.push_back(payload_bytes_);
    payload_bytes_ += (bytes_of[i] + 7) / 8 * 8;
  }
  const Device& device = setup_.device;
  const std::int64_t n = setup_.workers.num_workers;
  places_on_device_ = Buffer<ScalerPlace>(num_scalers(), device);
  local_ = Buffer<float>(n * num_scalers(), device);
  own_ = Buffer<float>(n * num_scalers(), device);
  shared_ = Buffer<float>(num_scalers(), device);
  scales_ = Buffer<float>(num_scalers(), device);
  drawn_with_ = Buffer<float>(setup_.workers.num_local_workers * num_scalers(), device);
  payloads_ = Buffer<std::uint64_t>(n * payload_bytes_ / 8, device);
  Stream stream(device);
  copy<ScalerPlace>(places_, places_on_device_.span(), stream);
  stream.synchronize();
}

std::span<float> DeviceCoder::local_rows() {
  return local_.span().subspan(static_cast<std::size_t>(setup_.workers.first_local_worker * num_scalers()),
                               static_cast<std::size_t>(setup_.workers.num_local_workers * num_scalers()));
}

DeviceGather DeviceCoder::gather_scalers(std::span<const WorkerRange> ranks) {
  return gather_rows(local_.data(), num_scalers() * static_cast<std::int64_t>(sizeof(float)), ranks);
}

DeviceGather DeviceCoder::gather_payloads(std::span<const WorkerRange> ranks) {
  return gather_rows(payloads_.data(), payload_bytes_, ranks);
}

void DeviceCoder::share(NonfiniteReport* report, std::uint32_t* skip, const std::uint32_t* frozen, Stream& stream) {
  if (places_.empty()) return;
  share_scalers({.places = places_on_device_.data(),
                 .num_scalers = num_scalers(),
                 .num_workers = setup_.workers.num_workers,
                 .first_local_worker = setup_.workers.first_local_worker,
                 .num_local_workers = setup_.workers.num_local_workers,
                 .local = local_.data(),
                 .own = own_.data(),
                 .shared = shared_.data(),
                 .scales = scales_.data(),
                 .drawn_with = drawn_with_.data(),
                 .report = report,
                 .skip = skip,
                 .frozen = frozen},
                stream);
}

void DeviceCoder::return_ternary(const TensorTable&, const DeviceStep&, Stream&) {
  TERNGRAD_THROW(InvalidArgument, "[return leg] these tensors have no integer sums to ternarize");
}

std::size_t DeviceCoder::index_of(int segment) const {
  const auto found = std::find(segments_.begin(), segments_.end(), segment);
  TERNGRAD_REQUIRE(found != segments_.end(), "[exchange] tensor ", segment, " is not in this group");
  return static_cast<std::size_t>(found - segments_.begin());
}

float DeviceCoder::greatest_scaler(int local_worker, int segment, Stream& stream) const {
  const std::size_t index = index_of(segment);
  std::vector<float> scalers(static_cast<std::size_t>(scalers_of(index)));
  copy<float>({drawn_with(local_worker, index), scalers.size()}, std::span<float>(scalers), stream);
  stream.synchronize();
  return scalers.empty() ? 0.0f : *std::max_element(scalers.begin(), scalers.end());
}

}  // namespace terngrad
