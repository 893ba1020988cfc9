// Sparse messages on a GPU: the part of SparseEncoder that lives there.
#pragma once

#include <memory>
#include <span>

#include "kernels/sparse/sparse_encoder.h"

namespace terngrad::cuda {

class SparseEncodeRunner {
 public:
  virtual ~SparseEncodeRunner() = default;
  /// @param tasks  as SparseEncoder::run has checked them, at least one
  virtual void run(std::span<const SparseEncodeTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<SparseEncodeRunner> make_sparse_encode_runner(const Device& device);

}  // namespace terngrad::cuda
