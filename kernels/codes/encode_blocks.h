// Encode blocks: statistics, scaler and t2 codes of one block after the other, while the block is in the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"
#include "kernels/statistics/scaler.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// One whole tensor.
struct EncodeBlocksTask {
  const void* gradient = nullptr;  // [count], aligned to the elements' size
  std::int64_t count = 0;
  std::int64_t draw_offset = 0;              // of the segment; a multiple of kDrawAlignment
  std::int64_t block_elements = 0;           // a positive multiple of kChunkElements
  float* scalers = nullptr;                  // [num_blocks(0, count, block_elements)] out: local scalers
  std::uint8_t* payload = nullptr;           // [payload_bytes(kT2, count, 1)] out, 4-byte aligned
  std::uint32_t worker = 0;                  // added to the key's worker number
  ElementType type = ElementType::kFloat32;  // of the gradient; the same in all tasks of a call
};

/// Writes each block's local_scaler and its t2 codes: the same bits as StatisticsPlan, local_scaler and ternarize one
/// after the other, but the gradient is read from memory once, the next block being fetched while one is encoded. For
/// scalers that are not shared between workers, since the codes follow at once.
/// @throws InvalidArgument for a misaligned block_elements, draw_offset, gradient or payload, or tasks of different
/// element types.
///
/// Elements of 16 bits are widened to float32 first. Bit-equal on every backend, for any number of threads and SIMD
/// width. Pointers are device memory on a GPU's stream, for which the host waits; a BlockEncoder does not make it.
void encode_blocks(std::span<const EncodeBlocksTask> tasks, double clip_factor, ScalerRule rule, const DrawKey& key,
                   Stream& stream);

namespace cuda {
class EncodeBlocksRunner;
}

/// encode_blocks() for every step: keeps what a GPU needs from call to call. With the tasks of the call before it
/// allocates nothing, copies nothing from the host and does not wait, so that it can be captured into a CUDA graph. On
/// a GPU one thread block encodes a block. It is fast while those that are resident together fit into the L2 cache,
/// about 48 KiB each, and the fastest for blocks of one chunk, of two of 16-bit elements, which it reads from memory
/// once.
class BlockEncoder {
 public:
  explicit BlockEncoder(Device device = Device::cpu());

  /// As encode_blocks(). @param device_step  as in Ternarizer::run
  void run(std::span<const EncodeBlocksTask> tasks, double clip_factor, ScalerRule rule, const DrawKey& key,
           Stream& stream, const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::EncodeBlocksRunner> cuda_;
};

}  // namespace terngrad
