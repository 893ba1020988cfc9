// Sparse encoding on a GPU: the GPU part of SparseEncoder.
#pragma once

#include <memory>
#include <span>

#include "kernels/sparse/sparse_encoder.h"

namespace terngrad::cuda {

class SparseEncodeRunner {
 public:
  virtual ~SparseEncodeRunner() = default;
  /// @param tasks  at least one, checked by SparseEncoder::run
  virtual void run(std::span<const SparseEncodeTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<SparseEncodeRunner> make_sparse_encode_runner(const Device& device);

}  // namespace terngrad::cuda
