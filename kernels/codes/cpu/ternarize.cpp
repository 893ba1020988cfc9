#include "kernels/codes/ternarize.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/codes/cpu/draw_groups.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/trans_payload.h"
#include "kernels/tensor/cpu/widened_chunk.h"

namespace terngrad::cpu {
namespace {

/// Largest group: 32 lanes of 2 bits.
constexpr std::int64_t kMaxGroupChunks = 32;

/// Chunks per group. A group's codes end on a unit boundary of the format, so that groups can be packed independently.
std::int64_t group_chunks(const TernarizeOptions& options) {
  switch (options.format) {
    case TernaryFormat::kT5:
      return 5;
    case TernaryFormat::kLanes:
      return lanes_per_word(lane_bits(options.num_workers));
    default:
      return 1;
  }
}

/// Bit planes of the chunk that begins `begin` codes into the task. While draws are generated, prefetches this chunk if
/// it is float32; otherwise widening has already read it, and the next chunk is prefetched.
void ternarize_planes(const TernarizeTask& task, std::int64_t begin, std::int64_t count,
                      const TernarizeOptions& options, const DrawKey& key, WidenedChunk& widened, ChunkDraws& draws,
                      CodePlanes& planes) {
  const std::int64_t next = begin + count;
  const auto prefetch = task.type == ElementType::kFloat32
                            ? memory_of(task.gradient, task.type, begin, count)
                            : memory_of(task.gradient, task.type, next, std::min(kChunkElements, task.count - next));
  ternarize_chunk(task, widened.of(task.gradient, task.type, begin, count), begin, count, key, options, prefetch, draws,
                  planes);
}

/// Ternarizes and packs the group of codes that begins `begin` codes into the task. @param draws  of its chunks
void ternarize_group(const TernarizeTask& task, std::int64_t begin, std::int64_t count, const TernarizeOptions& options,
                     const DrawKey& key, std::span<ChunkDraws> draws) {
  CodePlanes planes;
  WidenedChunk widened;
  if (options.format == TernaryFormat::kTMask) {
    // Signs are written at the offsets for all codes nonzero; close_gaps compacts them.
    ternarize_planes(task, begin, count, options, key, widened, draws[0], planes);
    const TMaskParts parts = tmask_parts(task.count);
    const std::int64_t chunk = begin / kChunkElements;
    std::memcpy(task.payload + parts.masks_offset + begin / 8, planes.nonzero,
                static_cast<std::size_t>((count + 31) / 32 * 4));
    std::uint8_t signs[kChunkElements / 8];
    const auto num_bytes = static_cast<std::uint32_t>(compact_signs(planes, count, signs));
    std::memcpy(task.payload + parts.signs_offset + chunk * (kChunkElements / 8), signs, num_bytes);
    std::memcpy(task.payload + 4 * chunk, &num_bytes, 4);
    return;
  }
  if (options.format == TernaryFormat::kTrans) {
    ternarize_planes(task, begin, count, options, key, widened, draws[0], planes);
    return write_trans_record(planes, task.count, begin / kChunkElements, task.payload);
  }
  alignas(64) std::uint32_t local[kMaxGroupChunks * kChunkElements / 16 + 4];
  const bool in_place = options.format == TernaryFormat::kT2;
  std::uint32_t* words = in_place ? reinterpret_cast<std::uint32_t*>(task.payload) + begin / 16 : local;
  for (std::int64_t done = 0; done < count; done += kChunkElements) {
    const std::int64_t chunk_count = std::min(kChunkElements, count - done);
    ternarize_planes(task, begin + done, chunk_count, options, key, widened,
                     draws[static_cast<std::size_t>(done / kChunkElements)], planes);
    planes_to_t2(planes, chunk_count, words + done / 16);
  }
  if (options.format == TernaryFormat::kT5) {
    t2_to_t5(local, count, task.payload + begin / 5);
  } else if (options.format == TernaryFormat::kLanes) {
    const int bits = lane_bits(options.num_workers);
    t2_to_lanes(local, count, bits, reinterpret_cast<std::uint64_t*>(task.payload) + begin / lanes_per_word(bits));
  }
}

/// Converts the chunks' byte counts to offsets and compacts their signs. @returns the payload's length in bytes
std::int64_t close_gaps(const TernarizeTask& task) {
  const TMaskParts parts = tmask_parts(task.count);
  std::uint32_t offset = 0;
  for (std::int64_t chunk = 0; chunk < parts.num_chunks; ++chunk) {
    std::uint32_t num_bytes;
    std::memcpy(&num_bytes, task.payload + 4 * chunk, 4);
    std::memcpy(task.payload + 4 * chunk, &offset, 4);
    std::uint8_t* signs = task.payload + parts.signs_offset;
    std::memmove(signs + offset, signs + chunk * (kChunkElements / 8), num_bytes);
    offset += num_bytes;
  }
  std::memcpy(task.payload + 4 * parts.num_chunks, &offset, 4);
  const std::int64_t padded = (std::int64_t{offset} + 3) / 4 * 4;
  std::memset(task.payload + parts.signs_offset + offset, 0, static_cast<std::size_t>(padded - offset));
  return parts.signs_offset + padded;
}

}  // namespace

void ternarize(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
               std::span<std::int64_t> bytes, Stream& stream) {
  for_each_group_of_one_draw(
      tasks, group_chunks(options), options.rounding, key, stream,
      [&](const TernarizeTask& task, std::int64_t first, std::int64_t count, const DrawKey& task_key,
          std::span<ChunkDraws> draws) { ternarize_group(task, first, count, options, task_key, draws); });
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TernarizeTask& task = tasks[i];
    bytes[i] = payload_bytes(options.format, task.count, options.num_workers);
    if (options.format == TernaryFormat::kTMask) {
      bytes[i] = close_gaps(task);
    } else if (options.format == TernaryFormat::kTrans) {
      bytes[i] = close_trans_gaps(task.count, task.payload);
    } else if (options.format == TernaryFormat::kT5 && task.count > 0) {
      const std::int64_t used = (task.count + 4) / 5;
      std::memset(task.payload + used, 0, static_cast<std::size_t>(bytes[i] - used));
    }
  }
}

}  // namespace terngrad::cpu
