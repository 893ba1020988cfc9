// Tree sums on a GPU: the GPU part of TreeSummer.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/tree_sum.h"

namespace terngrad::cuda {

/// Runs tasks that TreeSummer has checked; checks only this backend's additional requirements.
class TreeSumRunner {
 public:
  virtual ~TreeSumRunner() = default;
  virtual void run(std::span<const MeanTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<TreeSumRunner> make_tree_sum_runner(const Device& device);

}  // namespace terngrad::cuda
