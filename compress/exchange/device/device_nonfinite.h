// DeviceNonfinite: the non-finite tensors of the steps of an exchange, in GPU memory.
#pragma once

#include <cstdint>
#include <string>

#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/nonfinite.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Counterpart of NonfiniteTensors for kernels: flags in device memory, shared by all parts of an exchange, so that a
/// step is dropped as a whole whichever part was not finite. Parts may run in any order, but not concurrently. The
/// beginning of a step must run after all readers of the previous step's flags, and readers must run after all parts.
class DeviceNonfinite {
 public:
  /// @param layout       layout of all tensors; kernels report a tensor by its index in it
  /// @param num_workers  over all ranks
  DeviceNonfinite(const Layout& layout, int num_workers, OnNonfinite policy, const Stream& stream);

  /// Submits the start of a new run: clears the flags of earlier steps.
  void forget(Stream& stream);
  /// Submits the beginning of a step, before its first part.
  void begin_step(Stream& stream);

  // For kernels: [1] each, in device memory.
  NonfiniteReport* gradients() { return reports_.data(); }
  NonfiniteReport* means() { return reports_.data() + 1; }
  /// Flag that a part sets to 1 if the step must be dropped; null if the policy never drops steps.
  std::uint32_t* skip_flag() { return policy_ == OnNonfinite::kZero ? nullptr : skip_.data(); }
  /// Nonzero if the run was stopped before this step; reports are then left unchanged.
  const std::uint32_t* stop_latched() const { return stop_latched_.data(); }
  /// Nonzero after the last part if the step is to be dropped. With OnNonfinite::kStop it then stays nonzero.
  const std::uint32_t* skip() const { return skip_.data(); }

  /// Waits for the stream and applies the policy with the texts of NonfiniteTensors: fills in `report.nonfinite` and
  /// `report.skipped`. @throws NonFiniteError with OnNonfinite::kStop if any step was not finite
  void apply_policy(std::uint64_t step, ExchangeReport& report, Stream& stream) const;

 private:
  std::string text(const NonfiniteReport& gradients, const NonfiniteReport& means) const;

  Layout layout_;
  int num_workers_;
  OnNonfinite policy_;
  Buffer<NonfiniteReport> reports_;  // [2]: of gradients, of means
  Buffer<std::uint32_t> skip_;
  Buffer<std::uint32_t> stop_latched_;  // skip_ as before the step with OnNonfinite::kStop, else 0
};

}  // namespace terngrad
