// Sums of codes on a GPU: the GPU part of CodeSummer.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/code_sum.h"

namespace terngrad::cuda {

/// Runs tasks that CodeSummer has checked; checks only this backend's additional requirements.
class CodeSumRunner {
 public:
  virtual ~CodeSumRunner() = default;
  virtual void run(std::span<const CodeSumTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<CodeSumRunner> make_code_sum_runner(const Device& device);

}  // namespace terngrad::cuda
