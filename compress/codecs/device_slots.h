// DeviceSlots: where payloads lie in device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "compress/codecs/codec.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// The slices of a group of tensors, and the places of their payloads in device memory. Places are the same in every
/// step, begin at multiples of 16 bytes, and hold max_payload_bytes.
struct DeviceSlots {
  PayloadForm form = PayloadForm::kNatural;
  std::vector<Slice> encoded;                 // each encoded by itself; none is empty
  std::vector<std::uint8_t*> outgoing;        // [encoded][local workers] where encoding writes
  std::vector<Slice> aggregated;              // those whose mean this rank makes
  int num_payloads = 0;                       // of each: one per worker, or fewer that are sums over workers (lanes)
  std::vector<const std::uint8_t*> incoming;  // [aggregated][num_payloads] what their mean is made of
};

}  // namespace terngrad
