// DeviceNonfinite: what the steps of an exchange met that is not finite, in a GPU's memory.
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

/// The marks that the kernels of a step leave, in place of NonfiniteTensors: one set for all parts of an exchange, so
/// that a step is dropped as a whole whichever part was not finite. Parts add to the marks in any order, one at a time.
/// What begins a step must run after whatever reads the marks of the step before, and what reads them after all parts.
class DeviceNonfinite {
 public:
  /// @param layout       of all tensors: kernels report a tensor by its number here
  /// @param num_workers  of all ranks
  DeviceNonfinite(const Layout& layout, int num_workers, OnNonfinite policy, const Stream& stream);

  /// Submits the beginning of a new run: what an earlier one met is forgotten.
  void forget(Stream& stream);
  /// Submits the beginning of a step, before its first part.
  void begin_step(Stream& stream);

  // For kernels, in device memory, [1] each.
  NonfiniteReport* gradients() { return reports_.data(); }
  NonfiniteReport* means() { return reports_.data() + 1; }
  /// What a part sets to 1 where its step is to be dropped: null where steps are not.
  std::uint32_t* skip_flag() { return policy_ == OnNonfinite::kZero ? nullptr : skip_.data(); }
  /// Not 0 if the run was stopped before this step: reports then stay as they are.
  const std::uint32_t* stop_latched() const { return stop_latched_.data(); }
  /// Not 0 if the step is to be dropped, after its last part. Where such a step stops the run, it stays so.
  const std::uint32_t* skip() const { return skip_.data(); }

  /// Waits for the stream, and does what the policy says in the words of NonfiniteTensors: fills in `report.nonfinite`
  /// and `report.skipped`. @throws NonFiniteError where any step stopped the run
  void apply_policy(std::uint64_t step, ExchangeReport& report, Stream& stream) const;

 private:
  std::string text(const NonfiniteReport& gradients, const NonfiniteReport& means) const;

  Layout layout_;
  int num_workers_;
  OnNonfinite policy_;
  Buffer<NonfiniteReport> reports_;  // of gradients, of means
  Buffer<std::uint32_t> skip_;
  Buffer<std::uint32_t> stop_latched_;  // skip_ as it was before the step, where a step stops the run; else 0
};

}  // namespace terngrad
