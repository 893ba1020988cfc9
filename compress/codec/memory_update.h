// MemoryUpdate: the new value of a worker's memory after a step (error feedback, momentum, DGC, LoCo, EF21).
#pragma once

#include "kernels/tensor/averaged_residual.h"

namespace terngrad {

enum class MemoryUpdateKind {
  kUnsent,    // residual: fl(encoded - decoded)
  kEncoded,   // the encoded gradient
  kMasked,    // momentum masking (DGC): the given velocity, with 0 for entries that were sent; with a lossless codec
              // nothing is masked
  kAdded,     // EF21: fl(kept + decoded), given the kept values in place of encoded ones
  kAveraged,  // moving average of residuals, in 8 bits (LoCo, kernels/tensor/averaged_residual.h)
};

/// New value of a worker's memory of a tensor once the step is settled.
struct MemoryUpdate {
  MemoryUpdateKind kind = MemoryUpdateKind::kUnsent;
  ResidualAverage average = {};  // for kAveraged only
};

}  // namespace terngrad
