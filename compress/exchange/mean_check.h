// MeanCheck: finds tensors whose mean overflowed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "kernels/codes/float_payload.h"
#include "kernels/runtime/buffer.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Tensors of some coders whose mean can overflow, in order.
/// @param mean_factor  factor by which the mean is multiplied afterwards
std::vector<int> overflowing_tensors(std::span<const std::unique_ptr<Coder>> coders, float mean_factor);

/// Sums of finite numbers can overflow float32, or bfloat16 when they are rounded; sums of codes cannot. With the
/// previous step's table nothing is allocated, and the host does not wait.
class MeanCheck {
 public:
  /// @param segments  tensors of the setup's layout whose mean can overflow, in order
  /// @param max       largest allowed magnitude of a mean, from max_mean
  MeanCheck(const CoderSetup& setup, const std::vector<int>& segments, float max);

  /// Outputs for a mean that is above the limit, or NaN.
  struct Verdict {
    NonfiniteReport* report = nullptr;            // counts tensors, as if they belonged to one worker
    std::uint32_t* skip = nullptr;                // set to 1; null: the tensor's mean is set to zero
    const std::uint32_t* stop_latched = nullptr;  // see ScalerSharingTask
  };
  /// All pointers are in device memory. Gives the same result on all ranks, which have the same mean.
  void submit(const TensorTable& mean, const Verdict& verdict, Stream& stream);

 private:
  std::vector<Slice> tensors_;     // none is empty
  std::uint32_t first_too_large_;  // bit pattern of the smallest magnitude above the limit
  StatisticsPlan plan_;
  Buffer<ScalerPlace> places_;
  Buffer<float> flags_;
  Buffer<float> scratch_;  // unused outputs of scaler sharing
  FloatPacker zero_flagged_;
  std::vector<FloatPayloadTask> tasks_;
};

}  // namespace terngrad
