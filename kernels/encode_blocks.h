// Encode blocks: statistics, scaler and t2 codes of one block after the other, while the block is in the cache.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/philox.h"
#include "kernels/scaler.h"

namespace terngrad {

/// One whole tensor.
struct EncodeBlocksTask {
  const float* gradient = nullptr;  // [count]
  std::int64_t count = 0;
  std::int64_t draw_offset = 0;     // of the segment; a multiple of kDrawAlignment
  std::int64_t block_elements = 0;  // a positive multiple of kChunkElements
  float* scalers = nullptr;         // [num_blocks(0, count, block_elements)] out: local scalers
  std::uint8_t* payload = nullptr;  // [payload_bytes(kT2, count, 1)] out, 4-byte aligned
};

/// Writes each block's local_scaler and its t2 codes: the same bits as StatisticsPlan, local_scaler and ternarize one
/// after the other, but the gradient is read from memory once, the next block being fetched while one is encoded. For
/// scalers that are not shared between workers, since the codes follow at once.
/// @throws InvalidArgument for a misaligned block_elements, draw_offset or payload
/// Bit-equal on every backend, for any number of threads and SIMD width.
void encode_blocks(std::span<const EncodeBlocksTask> tasks, double clip_factor, ScalerRule rule, const DrawKey& key,
                   Stream& stream);

}  // namespace terngrad
