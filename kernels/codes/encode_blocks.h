// Block-wise encoding: statistics, scaler and t2 codes of one block after another, while the block is in the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"
#include "kernels/statistics/scaler.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// One whole tensor to encode.
struct EncodeBlocksTask {
  const void* gradient = nullptr;  // [count], aligned to the element size
  std::int64_t count = 0;
  std::int64_t draw_offset = 0;              // the segment's first draw index; a multiple of kDrawAlignment
  std::int64_t block_elements = 0;           // a positive multiple of kChunkElements
  float* scalers = nullptr;                  // [num_blocks(0, count, block_elements)] out: local scalers
  std::uint8_t* payload = nullptr;           // [payload_bytes(kT2, count, 1)] out, 4-byte aligned
  std::uint32_t worker = 0;                  // added to the key's worker number
  ElementType type = ElementType::kFloat32;  // the gradient's type, the same in all tasks of a call
};

/// Computes each block's local_scaler and t2 codes. Bit-identical to StatisticsPlan, local_scaler and ternarize in
/// sequence, but reads the gradient from memory only once: the next block is prefetched while one is encoded. Only for
/// scalers that are not shared between workers, since the codes are written right away.
///
/// 16-bit elements are widened to float32 first. Bit-equal on every backend, for any number of threads and SIMD width.
/// On a GPU's stream pointers are device memory, and the call waits; a BlockEncoder does not.
/// @throws InvalidArgument for a misaligned block_elements, draw_offset, gradient or payload, or tasks with different
/// element types
void encode_blocks(std::span<const EncodeBlocksTask> tasks, double clip_factor, ScalerRule rule, const DrawKey& key,
                   Stream& stream);

namespace cuda {
class EncodeBlocksRunner;
}

/// encode_blocks() for repeated use. A call with the same tasks as the previous one neither allocates, copies from the
/// host nor waits, so it can be captured into a CUDA graph. On a GPU one thread block encodes a block. It is fast while
/// all concurrently resident blocks (about 48 KiB each) fit into the L2 cache. Fastest are blocks of one chunk, or two
/// chunks of 16-bit elements, which are read from memory once.
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
