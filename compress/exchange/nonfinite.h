// Non-finite tensors of a step, and the policy of an exchange about them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "compress/plan/exchange_choices.h"
#include "compress/route/exchange_report.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Report for a tensor that counts as not finite, because its scalers are NaN.
inline constexpr const char* kNonfiniteWords = " holds NaN or infinity, or is too large for the codec";

/// Workers' tensors that hold NaN or infinity, and tensors whose mean overflowed, by their indices in the layout of all
/// tensors. The sum over the parts of an exchange, in any order, is what one exchange of all tensors finds.
struct NonfiniteTensors {
  NonfiniteReport gradients;
  NonfiniteReport means;  // as if they belonged to one worker

  bool empty() const { return gradients.count == 0 && means.count == 0; }
  NonfiniteTensors& operator+=(const NonfiniteTensors& part);
  void add_gradient(int tensor, int worker, int num_workers);
  void add_mean(int tensor);

  /// Applies `policy`: fills in `report.nonfinite`, which names the first tensor of the layout and its first worker,
  /// and `report.skipped`. Gradients that drop the step are reported in place of overflowing means.
  /// @param layout  of all tensors
  /// @param sender  "worker", or "group" if groups exchange as workers
  /// @throws NonFiniteError with kStop if there is any non-finite tensor
  void apply_policy(OnNonfinite policy, const Layout& layout, int num_workers, std::uint64_t step,
                    ExchangeReport& report, const char* sender = "worker") const;
};

/// NonfiniteTensors of the current step in the memory of a device, where kernels add to them, and a flag that drops the
/// step. All parts of an exchange share them, so that a step is dropped as a whole whichever part was not finite. Parts
/// may run in any order, but not concurrently. On a GPU, the beginning of a step must run after all readers of the
/// previous step's flag, and readers must run after all parts.
class NonfiniteFlags {
 public:
  NonfiniteFlags(OnNonfinite policy, const Stream& stream);

  OnNonfinite policy() const { return policy_; }
  /// Submits the start of a new run: clears the flags of earlier steps.
  void forget(Stream& stream);
  /// Submits the beginning of a step, before its first part. On a GPU kStop keeps flag and reports in all later steps,
  /// none of which is applied, since the host may check only after some of them.
  void begin_step(Stream& stream);

  // For kernels: [1] each, in the device's memory.
  NonfiniteReport* gradients() { return reports_.data(); }
  NonfiniteReport* means() { return reports_.data() + 1; }
  /// Flag that a part sets to 1 if the step must be dropped; null if the policy never drops steps.
  std::uint32_t* skip_flag() { return policy_ == OnNonfinite::kZero ? nullptr : skip_.data(); }
  /// Nonzero if the run was stopped before this step; reports are then left unchanged.
  const std::uint32_t* stop_latched() const { return stop_latched_.data(); }
  /// Nonzero after the last part if the step is to be dropped.
  const std::uint32_t* skip() const { return skip_.data(); }

  /// Waits for the stream. @returns the tensors found since the beginning of the step
  NonfiniteTensors found(Stream& stream) const;
  /// Waits for the stream. @returns true if the step is to be dropped
  bool is_dropped(Stream& stream) const;

  /// Overwrites the state of this step by that of another rank. @param send  broadcasts bytes of the device's memory
  void share(const std::function<void(std::span<std::uint8_t>)>& send);

  // In host memory, where results are there when a call returns:
  /// Number of tensors found so far; 0 on a GPU.
  std::uint64_t count_on_cpu() const {
    return reports_.device().is_cpu() ? reports_.data()[0].count + reports_.data()[1].count : 0;
  }
  /// Adds a tensor whose mean overflowed.
  void add_mean_on_cpu(std::uint32_t tensor);
  /// Takes out what was found so far, to learn what a part finds by itself; add_on_cpu puts it back.
  NonfiniteTensors take_on_cpu();
  void add_on_cpu(const NonfiniteTensors& part);

 private:
  OnNonfinite policy_;
  Buffer<NonfiniteReport> reports_;  // [2]: of gradients, of means
  Buffer<std::uint32_t> skip_;
  Buffer<std::uint32_t> stop_latched_;  // on a GPU skip_ as before the step with OnNonfinite::kStop, else 0
};

}  // namespace terngrad
