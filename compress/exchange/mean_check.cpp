#include "compress/exchange/mean_check.h"

#include <algorithm>
#include <bit>

#include "kernels/runtime/copy.h"
#include "kernels/statistics/scaler.h"

namespace terngrad {
namespace {

std::vector<Slice> whole_tensors(const Layout& layout, const std::vector<int>& segments) {
  std::vector<Slice> slices;
  for (const int segment : segments) {
    const std::int64_t n = layout.segment(segment).num_elements;
    if (n > 0) slices.push_back({segment, 0, n});
  }
  return slices;
}

}  // namespace

std::vector<int> overflowing_tensors(std::span<const std::unique_ptr<Coder>> coders, float mean_factor) {
  std::vector<int> tensors;
  for (const auto& coder : coders) {
    // Sums of codes are at most L N, times a scaler of at most 2^126 / (L N): finite, though perhaps not after
    // multiplication with a factor above 1.
    if (!coder->can_overflow() && mean_factor <= 1) continue;
    tensors.insert(tensors.end(), coder->segments().begin(), coder->segments().end());
  }
  std::ranges::sort(tensors);
  return tensors;
}

// Bit patterns of magnitudes have the order of the numbers; infinity follows the largest one, and NaN comes after it.
MeanCheck::MeanCheck(const CoderSetup& setup, const std::vector<int>& segments, float max)
    : tensors_(whole_tensors(setup.layout, segments)),
      first_too_large_(std::bit_cast<std::uint32_t>(max) + 1),
      plan_(tensors_, setup.device),
      places_(static_cast<std::int64_t>(tensors_.size()), setup.device),
      flags_(places_.num_elements(), setup.device),
      scratch_(4 * places_.num_elements(), setup.device),
      zero_flagged_(FloatPayload::kFloat32, setup.device) {
  std::vector<ScalerPlace> places;
  for (const Slice& tensor : tensors_) {
    places.push_back({ScalerCombination::kMax, setup.number_of(tensor.segment), 1});
  }
  Stream stream(setup.device);
  copy<ScalerPlace>(places, places_.span(), stream);
  stream.synchronize();
}

void MeanCheck::submit(const TensorTable& mean, const Verdict& verdict, Stream& stream) {
  if (tensors_.empty()) return;
  const std::int64_t count = places_.num_elements();
  nonfinite_flags(plan_, {&mean, 1}, first_too_large_, flags_.span(), stream);
  combine_scalers({.places = places_.data(),
                   .num_scalers = count,
                   .num_workers = 1,
                   .first_local_worker = 0,
                   .num_local_workers = 1,
                   .local = flags_.data(),
                   .own = scratch_.data(),
                   .shared = scratch_.data() + count,
                   .scales = scratch_.data() + 2 * count,
                   .drawn_with = scratch_.data() + 3 * count,
                   .report = verdict.report,
                   .skip = verdict.skip,
                   .stop_latched = verdict.stop_latched},
                  stream);
  if (verdict.skip != nullptr) return;
  tasks_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    float* values = mean.slice(tensors_[i]);
    tasks_.push_back({.values = values, .count = tensors_[i].count, .flag = flags_.data() + i, .payload = values});
  }
  zero_flagged_.run(tasks_, stream);
}

}  // namespace terngrad
