#include "kernels/codes/encode_blocks.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/codes/cpu/chunk_draws.h"
#include "kernels/codes/cuda/encode_blocks.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/common/gradient_tasks.h"
#include "kernels/tensor/cpu/widened_chunk.h"

namespace terngrad {
namespace {

/// Statistics of one block, computed chunk by chunk.
Statistics block_statistics(const EncodeBlocksTask& task, std::int64_t first, std::int64_t count,
                            cpu::WidenedChunk& widened) {
  const auto num_chunks = static_cast<std::size_t>((count + kChunkElements - 1) / kChunkElements);
  std::array<Statistics, kStatisticsSlots> few;
  std::vector<Statistics> many(num_chunks > few.size() ? num_chunks : 0);
  const std::span<Statistics> chunks = many.empty() ? std::span(few).first(num_chunks) : std::span(many);
  for (std::int64_t done = 0; done < count; done += kChunkElements) {
    const std::int64_t chunk_count = std::min(kChunkElements, count - done);
    chunks[static_cast<std::size_t>(done / kChunkElements)] =
        cpu::chunk_statistics(widened.of(task.gradient, task.type, first + done, chunk_count), chunk_count);
  }
  return combine_chunks(chunks);
}

void encode_block(const EncodeBlocksTask& task, std::int64_t block, double clip_factor, ScalerRule rule, DrawKey key) {
  key.worker += task.worker;
  const std::int64_t first = block * task.block_elements;
  const std::int64_t count = std::min(task.block_elements, task.count - first);
  cpu::WidenedChunk widened;
  task.scalers[block] = local_scaler(block_statistics(task, first, count, widened), count, clip_factor, rule);
  const TernarizeTask ternarize_task{.count = task.count,
                                     .draw_offset = task.draw_offset,
                                     .block_elements = task.block_elements,
                                     .scalers = task.scalers};
  cpu::ChunkDraws draws;
  cpu::CodePlanes planes;
  for (std::int64_t begin = first; begin < first + count; begin += kChunkElements) {
    const std::int64_t chunk_count = std::min(kChunkElements, first + count - begin);
    // The chunk itself is in the cache; prefetch the corresponding chunk of the next block.
    const std::int64_t ahead = std::min(begin + task.block_elements, task.count);
    const std::int64_t ahead_count = std::min(kChunkElements, task.count - ahead);
    draws.are_filled = false;
    cpu::ternarize_chunk(ternarize_task, widened.of(task.gradient, task.type, begin, chunk_count), begin, chunk_count,
                         key, TernarizeOptions{}, cpu::memory_of(task.gradient, task.type, ahead, ahead_count), draws,
                         planes);
    cpu::planes_to_t2(planes, chunk_count, reinterpret_cast<std::uint32_t*>(task.payload) + begin / 16);
  }
}

}  // namespace

BlockEncoder::BlockEncoder(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_encode_blocks_runner(device);
}

void BlockEncoder::run(std::span<const EncodeBlocksTask> tasks, double clip_factor, ScalerRule rule, const DrawKey& key,
                       Stream& stream, const std::uint64_t* device_step) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[encode_blocks] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[encode_blocks] device_step is for a GPU's stream");
  const ElementType type = common::element_type_of(tasks, "encode_blocks");
  std::int64_t total = 0;
  for (const EncodeBlocksTask& task : tasks) {
    TERNGRAD_REQUIRE(task.block_elements > 0 && task.block_elements % kChunkElements == 0,
                     "[encode_blocks] block_elements must be a positive multiple of ", kChunkElements, ", got ",
                     task.block_elements);
    TERNGRAD_REQUIRE(task.draw_offset % kDrawAlignment == 0, "[encode_blocks] draw_offset must be a multiple of ",
                     kDrawAlignment, ", got ", task.draw_offset);
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % 4 == 0,
                     "[encode_blocks] payload must be 4-byte aligned");
    total += num_blocks(0, task.count, task.block_elements);
  }
  if (device_.is_cuda()) return cuda_->run(tasks, type, clip_factor, rule, key, device_step, stream);
  parallel_for(stream.num_threads(), total, 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t index = 0;  // first block of the task
    for (const EncodeBlocksTask& task : tasks) {
      const std::int64_t blocks = num_blocks(0, task.count, task.block_elements);
      for (std::int64_t block = std::max(begin, index); block < std::min(end, index + blocks); ++block) {
        encode_block(task, block - index, clip_factor, rule, key);
      }
      index += blocks;
    }
  });
}

void encode_blocks(std::span<const EncodeBlocksTask> tasks, double clip_factor, ScalerRule rule, const DrawKey& key,
                   Stream& stream) {
  BlockEncoder(stream.device()).run(tasks, clip_factor, rule, key, stream);
  stream.synchronize();  // frees the GPU tables only after their use
}

}  // namespace terngrad
