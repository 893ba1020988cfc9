// MemoryUpdate: the new value of a worker's memory after a step (error feedback, momentum, DGC).
#pragma once

namespace terngrad {

/// New value of a worker's memory of a tensor once the step is settled.
enum class MemoryUpdate {
  kUnsent,   // residual: fl(encoded - decoded)
  kEncoded,  // the encoded gradient
  kMasked,   // momentum masking (DGC): the given velocity, with 0 for entries that were sent; with a lossless codec
             // nothing is masked
};

}  // namespace terngrad
