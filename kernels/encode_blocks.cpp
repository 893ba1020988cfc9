#include "kernels/encode_blocks.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cuda/encode_blocks.h"
#include "kernels/errors.h"
#include "kernels/parallel.h"
#include "kernels/statistics.h"
#include "kernels/ternarize.h"
#include "kernels/ternary_pack.h"

namespace terngrad {
namespace {

/// Statistics of one block, chunk by chunk.
Statistics block_statistics(const float* values, std::int64_t count) {
  std::array<Statistics, kStatisticsSlots> chunks;
  const std::int64_t num_chunks = (count + kChunkElements - 1) / kChunkElements;
  if (num_chunks > static_cast<std::int64_t>(chunks.size())) {
    std::vector<Statistics> many(static_cast<std::size_t>(num_chunks));
    for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
      const std::int64_t first = chunk * kChunkElements;
      many[static_cast<std::size_t>(chunk)] =
          cpu::chunk_statistics(values + first, std::min(kChunkElements, count - first));
    }
    return combine_chunks(many);
  }
  for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const std::int64_t first = chunk * kChunkElements;
    chunks[static_cast<std::size_t>(chunk)] =
        cpu::chunk_statistics(values + first, std::min(kChunkElements, count - first));
  }
  return combine_chunks({chunks.data(), static_cast<std::size_t>(num_chunks)});
}

void encode_block(const EncodeBlocksTask& task, std::int64_t block, double clip_factor, ScalerRule rule, DrawKey key) {
  key.worker += task.worker;
  const std::int64_t first = block * task.block_elements;
  const std::int64_t count = std::min(task.block_elements, task.count - first);
  task.scalers[block] = local_scaler(block_statistics(task.gradient + first, count), count, clip_factor, rule);
  const TernarizeTask ternarize_task{.gradient = task.gradient,
                                     .first = 0,
                                     .count = task.count,
                                     .draw_offset = task.draw_offset,
                                     .block_elements = task.block_elements,
                                     .scalers = task.scalers,
                                     .clips = nullptr,
                                     .payload = task.payload};
  cpu::CodePlanes planes;
  for (std::int64_t begin = first; begin < first + count; begin += kChunkElements) {
    const std::int64_t chunk_count = std::min(kChunkElements, first + count - begin);
    const std::int64_t ahead = begin + task.block_elements;
    const float* prefetch = ahead + chunk_count <= task.count ? task.gradient + ahead : nullptr;
    cpu::ternarize_chunk(ternarize_task, begin, chunk_count, key, DrawPurpose::kTernarizeRefine, prefetch, planes);
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
  if (device_.is_cuda()) return cuda_->run(tasks, clip_factor, rule, key, device_step, stream);
  parallel_for(stream.num_threads(), total, 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t index = 0;  // of the task's first block
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
  stream.synchronize();  // the tables on a GPU are gone then
}

}  // namespace terngrad
