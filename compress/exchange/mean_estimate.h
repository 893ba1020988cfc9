// MeanEstimate: the mean of the workers' estimates of their gradients (MemoryKind::kEf21), for the tensors of a part.
#pragma once

#include <span>
#include <vector>

#include "compress/exchange/mean_check.h"
#include "compress/exchange/part_exchange.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Adds the mean of the messages to the mean G of the estimates before, G' = fl(G + mean), which is the result of the
/// exchange. All ranks keep the same G, since they have the same mean. Takes 4 bytes per element for G' beside G
/// (SharedState).
class MeanEstimate {
 public:
  /// @param numbers  indices of the layout's tensors in that of all tensors
  MeanEstimate(const Layout& layout, const PartContext& context, const std::vector<int>& numbers);

  /// Replaces the mean of tensors with an estimate, and reports those of all tensors that overflow. Asynchronous on a
  /// GPU, where it can be captured after a first call with the same table.
  /// @param mean  in: of messages; out: of estimates
  void apply(const TensorTable& mean, Stream& stream);
  /// Keeps the result of the last call of apply, unless the step is to be dropped.
  void commit(Stream& stream);

 private:
  struct Tensor {
    int segment = 0;
    float* estimate = nullptr;  // in SharedState
    std::span<float> next;
  };

  Buffer<float> next_;
  std::vector<Tensor> tensors_;
  NonfiniteFlags& flags_;
  MeanCheck mean_check_;
};

}  // namespace terngrad
