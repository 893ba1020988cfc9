// Sums of several workers' t5 or tmask codes, without unpacking single codes.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor/slice.h"

namespace terngrad::cpu {

/// Maximum number of payloads whose sums fit a signed byte.
inline constexpr std::size_t kMaxPackedPayloads = 127;

/// Workspace of sum_t5_codes for one chunk, including the codes before it in its first byte and behind it in the last
/// vector of bytes.
inline constexpr std::size_t kT5SumRoom = std::size_t{kChunkElements} + std::size_t{5} * 33 + 8;

/// Sums codes [first, first + count), at most a chunk, of at most kMaxPackedPayloads t5 payloads of `payload_bytes`
/// bytes each.
/// @param room  [kT5SumRoom] workspace
/// @returns the sums, inside `room`
const std::int8_t* sum_t5_codes(std::span<const std::uint8_t* const> payloads, std::int64_t payload_bytes,
                                std::int64_t first, std::int64_t count, std::int8_t* room);

/// One chunk of a tmask payload.
struct TMaskChunk {
  const std::uint8_t* masks = nullptr;  // [num_mask_bytes]
  std::int64_t num_mask_bytes = 0;
  std::span<const std::uint8_t> signs;  // from the chunk's first sign to the payload's end
};

/// The same for tmask chunks.
/// @param sums  [count rounded up to a multiple of 64] out
void sum_tmask_codes(std::span<const TMaskChunk> chunks, std::int64_t count, std::int8_t* sums);

}  // namespace terngrad::cpu
