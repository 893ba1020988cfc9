// Block-wise encoding on a GPU: the GPU part of BlockEncoder.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/encode_blocks.h"

namespace terngrad::cuda {

class EncodeBlocksRunner {
 public:
  virtual ~EncodeBlocksRunner() = default;
  /// @param type         element type of all tasks
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void run(std::span<const EncodeBlocksTask> tasks, ElementType type, double clip_factor, ScalerRule rule,
                   const DrawKey& key, const std::uint64_t* device_step, Stream& stream) = 0;
};

std::shared_ptr<EncodeBlocksRunner> make_encode_blocks_runner(const Device& device);

}  // namespace terngrad::cuda
