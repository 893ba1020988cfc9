// Natural compression on a GPU: the GPU part of ExponentQuantizer.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/exponents.h"

namespace terngrad::cuda {

class ExponentsRunner {
 public:
  virtual ~ExponentsRunner() = default;
  /// @param type         element type of all tasks
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void run(std::span<const QuantizeTask> tasks, ElementType type, const ExponentOptions& options,
                   const DrawKey& key, const std::uint64_t* device_step, Stream& stream) = 0;
};

std::shared_ptr<ExponentsRunner> make_exponents_runner(const Device& device);

}  // namespace terngrad::cuda
