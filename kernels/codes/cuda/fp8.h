// E4M3 on a GPU: the GPU part of Fp8Quantizer.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/fp8.h"

namespace terngrad::cuda {

class Fp8Runner {
 public:
  virtual ~Fp8Runner() = default;
  /// @param type         element type of all tasks
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void run(std::span<const QuantizeTask> tasks, ElementType type, const Fp8Options& options, const DrawKey& key,
                   const std::uint64_t* device_step, Stream& stream) = 0;
};

std::shared_ptr<Fp8Runner> make_fp8_runner(const Device& device);

}  // namespace terngrad::cuda
