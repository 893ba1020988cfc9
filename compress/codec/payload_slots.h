// PayloadSlots: where the payloads of a group of tensors lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/codec.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// The slices of a group of tensors, and their payloads in memory of the exchange's device. Outgoing slots are the same
/// in every step, begin at multiples of 8 bytes on the CPU and of 16 on a GPU, and hold max_payload_bytes. Incoming
/// ones are where the transport has them: the same in every step on a GPU.
struct PayloadSlots {
  PayloadForm form = PayloadForm::kNatural;
  std::vector<Slice> encoded = {};           // each encoded by itself; of no elements only where that has a payload
  std::vector<std::uint8_t*> outgoing = {};  // [encoded][local workers] where encoding writes
  std::vector<std::int64_t> outgoing_bytes = {};  // of each, what encoding wrote; written by the coder

  std::vector<Slice> aggregated = {};              // those whose mean this rank makes
  int num_payloads = 0;                            // of each: one per worker, or fewer that are sums over workers
  std::vector<const std::uint8_t*> incoming = {};  // [aggregated][num_payloads] what their mean is made of
  std::vector<std::int64_t> incoming_bytes = {};   // of each; on a GPU the room that it has
  /// Empty, or how many workers each of num_payloads is the sum of, in fp32 (codecs that sum as floats only).
  std::vector<int> summed_workers = {};
};

}  // namespace terngrad
