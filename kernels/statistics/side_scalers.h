// Separate scalers for positive and negative elements, used by codes with asymmetric levels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Largest magnitudes of the positive and negative elements, as bit patterns (like Statistics::max_bits). The sign bit
/// decides the side, so -0 and negative NaN are negative. 0 for a side without elements.
struct SideMax {
  std::uint32_t positive = 0;
  std::uint32_t negative = 0;
  friend bool operator==(const SideMax&, const SideMax&) = default;
};

/// Local scalers s+ and s- of `count` elements: local_scaler() with the largest magnitude of one side in place of
/// max|g|. sigma is that of all elements, so with ScalerRule::kPaper a scaler is min(max|g| of the side, c sigma).
/// Source: scalers as in Wen et al., "TernGrad", NIPS 2017, section 3.3, for each sign.
/// @param statistics  statistics of all elements; unused without clipping (clip_factor 0)
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

/// Computes the scalers of both sides of many slices.
class SideScalerPlan {
 public:
  /// @param slices  any slices; each gets two scalers, 0 if it is empty
  /// @param device  device of the elements
  explicit SideScalerPlan(std::vector<Slice> slices, Device device = Device::cpu());

  std::span<const Slice> slices() const { return statistics_.slices(); }

  /// Computes the scalers of every slice of every worker. One pass over the elements, and a second for sigma if
  /// clipping. Bit-equal on every backend, for any alignment, number of threads and SIMD width. Not thread-safe: one
  /// run at a time per plan. On a GPU it is asynchronous and allocates nothing once the plan has run with these tables.
  /// @param workers  one table per worker, all of one element type, finite or not; in device memory on a GPU
  /// @param out      [2 * workers.size() * slices().size()] out, worker-major: s+ then s- of each slice, the canonical
  ///                 NaN for a non-finite side; device memory on a GPU
  /// @throws InvalidArgument if out has another size, element types differ, the stream is on another device, or the
  /// rule is neither kPaper nor kOriginal
  void run(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule, std::span<float> out,
           Stream& stream);

 private:
  void run_on_cpu(const TensorTable& tensors, double clip_factor, ScalerRule rule, float* out, Stream& stream);

  StatisticsPlan statistics_;
  Device device_;
  std::vector<Slice> chunks_;              // chunks of all slices, in slice order
  std::vector<std::int64_t> first_chunk_;  // per slice, then the number of chunks
  std::vector<Statistics> sums_;           // per slice; on the CPU
  Buffer<SideMax> maxima_;                 // per chunk; on the CPU
  std::shared_ptr<cuda::SideScalerRunner> cuda_;
};

namespace cpu {
/// SideMax of one chunk, count in [0, 4096].
SideMax chunk_side_max(const float* values, std::int64_t count);
}  // namespace cpu

}  // namespace terngrad
