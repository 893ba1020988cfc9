// Drawn elements on a GPU: the GPU part of DrawnEncoder and DrawnSummer.
#pragma once

#include <memory>
#include <span>

#include "kernels/sparse/drawn_payload.h"

namespace terngrad::cuda {

class DrawnRunner {
 public:
  virtual ~DrawnRunner() = default;
  /// @param tasks        at least one, checked by DrawnEncoder::run
  /// @param key          key of the draws that yield the payloads' keys
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void encode(std::span<const DrawnEncodeTask> tasks, float factor, const DrawKey& key,
                      const std::uint64_t* device_step, Stream& stream) = 0;
  /// @param means  aggregated values of the groups of all tasks, in task order
  virtual void scatter(std::span<const DrawnSumTask> tasks, const float* means, Stream& stream) = 0;
};

std::shared_ptr<DrawnRunner> make_drawn_runner(const Device& device);

}  // namespace terngrad::cuda
