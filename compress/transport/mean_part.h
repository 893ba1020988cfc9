// MeanPart: a slice of the mean on its way back to the workers, and its payload.
#pragma once

#include <cstdint>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// One slice of the mean. Payloads are in the memory of the exchange's device, aligned to 8 bytes on the CPU and 16 on
/// a GPU, where their addresses are the same in every step.
struct MeanPart {
  Slice slice;
  int shard = 0;
  bool is_own = true;                      // true if this rank aggregates it
  std::int64_t bytes = 0;                  // size of the payload; on a GPU, and before it is encoded, an upper bound
  std::uint8_t* outgoing = nullptr;        // own parts: where the payload is written
  const std::uint8_t* incoming = nullptr;  // where the payload is read
};

}  // namespace terngrad
