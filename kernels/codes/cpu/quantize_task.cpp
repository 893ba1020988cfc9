#include "kernels/codes/cpu/quantize_task.h"

#include <algorithm>
#include <cstring>

#include "kernels/codes/cpu/code_bytes.h"
#include "kernels/codes/cpu/draw_groups.h"
#include "kernels/codes/lanes.h"
#include "kernels/tensor/cpu/widened_chunk.h"

namespace terngrad::cpu {
namespace {

/// Packs ternary codes, given as code + 1, into t2.
void bytes_to_t2(const std::uint8_t* codes, std::int64_t count, std::uint8_t* words) {
  for (std::int64_t i = 0; i < count; i += 16) {
    std::uint32_t word = 0;
    for (std::int64_t j = std::min<std::int64_t>(16, count - i); j-- > 0;)
      word = word << 2 | ((codes[i + j] + 3u) & 3u);
    std::memcpy(words + i / 4, &word, sizeof(word));
  }
}

/// Packs a chunk's codes, zero-padded to a multiple of 64, into their place in the payload.
void pack_chunk(const QuantizeTask& task, const CodeStore& store, std::int64_t begin, std::int64_t count,
                const std::uint8_t* codes) {
  switch (store.format) {
    case CodeFormat::kT2:
      return bytes_to_t2(codes, count, task.payload + begin / 4);
    case CodeFormat::kBits:
      std::memcpy(task.payload + begin / 8, codes, static_cast<std::size_t>((count + 31) / 32 * 4));
      return;
    case CodeFormat::kQ4:
    case CodeFormat::kN4:
    case CodeFormat::kE4:
      return pack_nibbles(codes, (count + 7) / 8 * 8, task.payload + begin / 2);
    case CodeFormat::kE2:
      return pack_bits(codes, (count + 15) / 16 * 16, 2, task.payload + begin / 8 * 2);
    case CodeFormat::kE3:
      // Zeros in the last three bytes, which the codes may not fill.
      std::memset(task.payload + begin / 8 * 3 + payload_bytes(CodeFormat::kE3, count, 1) - 3, 0, 3);
      return pack_bits(codes, count, 3, task.payload + begin / 8 * 3);
    default:
      std::memcpy(task.payload + begin, codes, static_cast<std::size_t>((count + 3) / 4 * 4));
  }
}

/// Quantizes a group of chunks, whose codes end on a unit boundary of the format. @param draws  of its chunks
void quantize_group(const QuantizeTask& task, const CodeStore& store, std::int64_t first, std::int64_t count,
                    const DrawKey& key, std::span<ChunkDraws> draws, const QuantizeChunk& quantize_chunk) {
  WidenedChunk widened;
  alignas(64) std::uint8_t codes[kChunkElements];
  LaneWriter lanes(reinterpret_cast<std::uint64_t*>(task.payload) +
                       (store.lane_bits == 0 ? 0 : first / lanes_per_word(store.lane_bits)),
                   std::max(1, store.lane_bits));
  for (std::int64_t begin = first; begin < first + count; begin += kChunkElements) {
    const std::int64_t chunk_count = std::min(kChunkElements, first + count - begin);
    const std::int64_t next = begin + chunk_count;
    // While draws are generated, prefetch this chunk if it is float32; otherwise widening has already read it, so
    // prefetch the next chunk.
    const auto prefetch = task.type == ElementType::kFloat32
                              ? memory_of(task.gradient, task.type, begin, chunk_count)
                              : memory_of(task.gradient, task.type, next, std::min(kChunkElements, task.count - next));
    quantize_chunk(task, widened.of(task.gradient, task.type, begin, chunk_count), begin, chunk_count, key, prefetch,
                   draws[static_cast<std::size_t>((begin - first) / kChunkElements)], codes);
    if (store.format == CodeFormat::kLanes) {
      for (std::int64_t i = 0; i < chunk_count; ++i) lanes.add(codes[i]);
      continue;
    }
    if (store.format != CodeFormat::kBits)
      std::memset(codes + chunk_count, 0, static_cast<std::size_t>((chunk_count + 63) / 64 * 64 - chunk_count));
    pack_chunk(task, store, begin, chunk_count, codes);
  }
  lanes.finish();
}

}  // namespace

void quantize_tasks(std::span<const QuantizeTask> tasks, const CodeStore& store, Rounding rounding, const DrawKey& key,
                    Stream& stream, const QuantizeChunk& quantize_chunk) {
  const std::int64_t group_chunks = store.format == CodeFormat::kLanes ? lanes_per_word(store.lane_bits) : 1;
  for_each_group_of_one_draw(
      tasks, group_chunks, rounding, key, stream,
      [&](const QuantizeTask& task, std::int64_t first, std::int64_t count, const DrawKey& task_key,
          std::span<ChunkDraws> draws) { quantize_group(task, store, first, count, task_key, draws, quantize_chunk); });
}

}  // namespace terngrad::cpu
