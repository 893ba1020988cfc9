// Packing of sums into lanes on a GPU: the GPU part of SumPacker.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/pack_sums.h"

namespace terngrad::cuda {

class SumPackRunner {
 public:
  virtual ~SumPackRunner() = default;
  virtual void run(std::span<const SumPackTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<SumPackRunner> make_sum_pack_runner(int num_workers, int lane_levels, const Device& device);

}  // namespace terngrad::cuda
