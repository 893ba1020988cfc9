// Drawn elements on a GPU: the part of DrawnEncoder and DrawnSummer that lives there.
#pragma once

#include <memory>
#include <span>

#include "kernels/sparse/drawn_payload.h"

namespace terngrad::cuda {

class DrawnRunner {
 public:
  virtual ~DrawnRunner() = default;
  /// @param tasks        as DrawnEncoder::run has checked them, at least one
  /// @param key          of the draws that keys are made of
  /// @param device_step  null, or in place of key.step
  virtual void encode(std::span<const DrawnEncodeTask> tasks, float factor, const DrawKey& key,
                      const std::uint64_t* device_step, Stream& stream) = 0;
  /// @param means  of the groups of all tasks, one task after the other
  virtual void scatter(std::span<const DrawnSumTask> tasks, const float* means, Stream& stream) = 0;
};

std::shared_ptr<DrawnRunner> make_drawn_runner(const Device& device);

}  // namespace terngrad::cuda
