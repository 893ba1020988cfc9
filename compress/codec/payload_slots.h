// PayloadSlots: addresses of the payloads of a group of tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/codec.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// The slices of a group of tensors, and their payloads in memory of the exchange's device. Outgoing slots are the same
/// in every step, aligned to 8 bytes on the CPU and 16 on a GPU, and have max_payload_bytes. Incoming slots point to
/// where the transport received payloads; on a GPU they are the same in every step.
struct PayloadSlots {
  PayloadForm form = PayloadForm::kNatural;
  std::vector<Slice> encoded = {};  // each is encoded separately; empty slices only if their payload is not empty
  std::vector<std::uint8_t*> outgoing = {};       // [encoded][local workers] output of encoding
  std::vector<std::int64_t> outgoing_bytes = {};  // [encoded][local workers] length, written by the coder

  std::vector<Slice> aggregated = {};              // slices whose mean this rank computes
  int num_payloads = 0;                            // payloads per slice: one per worker, or fewer that are partial sums
  std::vector<const std::uint8_t*> incoming = {};  // [aggregated][num_payloads] inputs of the mean
  std::vector<std::int64_t> incoming_bytes = {};   // [aggregated][num_payloads]; on a GPU the slot size
  /// Number of workers summed in each of num_payloads, in fp32 (codecs with sums_as_float only); empty: no sums.
  std::vector<int> summed_workers = {};
};

}  // namespace terngrad
