// Sums of sparse messages on a GPU: the GPU part of SparseSummer.
#pragma once

#include <memory>
#include <span>

#include "kernels/sparse/sparse_sum.h"

namespace terngrad::cuda {

class SparseSumRunner {
 public:
  virtual ~SparseSumRunner() = default;
  /// @param tasks  checked by SparseSummer::run
  virtual void run(std::span<const SparseSumTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<SparseSumRunner> make_sparse_sum_runner(const Device& device);

}  // namespace terngrad::cuda
