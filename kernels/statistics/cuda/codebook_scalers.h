// Codebook scalers on a GPU: the GPU part of CodebookScalerPlan.
#pragma once

#include <memory>
#include <span>

#include "kernels/statistics/codebook_scalers.h"

namespace terngrad::cuda {

class CodebookScalerRunner {
 public:
  virtual ~CodebookScalerRunner() = default;
  /// As CodebookScalerPlan::run.
  virtual void run(std::span<const TensorTable> workers, float* units, float* scalers, Stream& stream) = 0;
};

std::shared_ptr<CodebookScalerRunner> make_codebook_scaler_runner(std::span<const Slice> runs, const Codebook& codebook,
                                                                  CodebookScale scale, const Device& device);

}  // namespace terngrad::cuda
