// DeviceMeanCheck: finds tensors whose mean overflowed, in a GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compress/codec/coder.h"
#include "kernels/codes/float_payload.h"
#include "kernels/runtime/buffer.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Sums of finite numbers can leave the range of float32, or that of bfloat16 when they are rounded; sums of codes
/// cannot. With the table of the step before nothing is allocated, and the host does not wait.
class DeviceMeanCheck {
 public:
  /// @param segments  of the setup's layout: the tensors whose mean can overflow, in order
  /// @param max  that a mean may be, as max_mean gives it
  DeviceMeanCheck(const CoderSetup& setup, const std::vector<int>& segments, float max);

  /// What is done about a mean that is above the limit, or NaN.
  struct Verdict {
    NonfiniteReport* report = nullptr;            // counts tensors, as if of one worker
    std::uint32_t* skip = nullptr;                // set to 1; null: the tensor's mean becomes zero
    const std::uint32_t* stop_latched = nullptr;  // see ScalerSharingTask
  };
  /// All pointers are device memory. The same on all ranks, which have the same mean.
  void submit(const TensorTable& mean, const Verdict& verdict, Stream& stream);

 private:
  std::vector<Slice> tensors_;     // none is empty
  std::uint32_t first_too_large_;  // bits of the magnitude
  StatisticsPlan plan_;
  Buffer<ScalerPlace> places_;
  Buffer<float> flags_;
  Buffer<float> scratch_;  // what sharing writes besides its report
  FloatPacker zero_flagged_;
  std::vector<FloatPayloadTask> tasks_;
};

}  // namespace terngrad
