// Scalers of the two sides of gradients: what codes of asymmetric levels are multiples of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Largest magnitudes of the two sides of a run of elements, as bit patterns (Statistics::max_bits). The sign bit says
/// which side an element is of: -0 and negative NaN are of the negative one. 0 for a side without elements.
struct SideMax {
  std::uint32_t positive = 0;
  std::uint32_t negative = 0;
  friend bool operator==(const SideMax&, const SideMax&) = default;
};

/// Local scalers s+ and s- of `count` elements: local_scaler() of the same sums, with the largest magnitude of a side
/// in place of that of all. So sigma is that of the whole run, about its mean, and with ScalerRule::kPaper a scaler is
/// min(max|g| of the side, c sigma). Source: scalers as in Wen et al., "TernGrad", NIPS 2017, section 3.3, for each
/// sign.
/// @param statistics  of the run; without clipping (clip_factor 0) not looked at
/// @param rule        kPaper or kOriginal
struct SideScalers {
  float positive = 0;
  float negative = 0;
};
SideScalers side_scalers(const Statistics& statistics, const SideMax& max, std::int64_t count, double clip_factor,
                         ScalerRule rule);

namespace cuda {
class SideScalerRunner;
}

/// The scalers of both sides of many slices.
class SideScalerPlan {
 public:
  /// @param slices  any slices; each gets two scalers of its own. Those of empty slices are 0
  /// @param device  where the elements will be
  explicit SideScalerPlan(std::vector<Slice> slices, Device device = Device::cpu());

  std::span<const Slice> slices() const { return statistics_.slices(); }

  /// Measures every slice of every worker. One pass over the elements, and one more for sigma with clipping.
  /// @param workers  one table per worker, all of one element type, finite or not; of device memory on a GPU
  /// @param out      [2 * workers.size() * slices().size()] out, worker after worker: s+ and then s- of each slice, the
  ///                 canonical NaN for a side that is not finite; device memory on a GPU
  /// @throws InvalidArgument if out has another size, tables are of different types, the stream is another device's or
  /// the rule is none of kPaper and kOriginal
  /// Bit-equal on every backend, for any alignment, number of threads and SIMD width. Not safe to run twice at once on
  /// one plan. On a GPU nothing is allocated and the host does not wait, once the plan has run with these tables.
  void run(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule, std::span<float> out,
           Stream& stream);

 private:
  void run_on_cpu(const TensorTable& tensors, double clip_factor, ScalerRule rule, float* out, Stream& stream);

  StatisticsPlan statistics_;
  Device device_;
  std::vector<Slice> chunks_;              // of all slices, one slice's behind the other
  std::vector<std::int64_t> first_chunk_;  // of each slice; one past the last at the end
  std::vector<Statistics> sums_;           // of each slice; on the CPU
  Buffer<SideMax> maxima_;                 // of each chunk; on the CPU
  std::shared_ptr<cuda::SideScalerRunner> cuda_;
};

namespace cpu {
/// Of one chunk, count in [0, 4096].
SideMax chunk_side_max(const float* values, std::int64_t count);
}  // namespace cpu

}  // namespace terngrad
