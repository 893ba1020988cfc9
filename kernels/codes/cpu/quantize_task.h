// Common driver of quantizing kernels on the CPU: distributes chunks over threads, has them quantized to one byte per
// code, and packs the codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/codes/cpu/chunk_draws.h"
#include "kernels/codes/quantize_task.h"
#include "kernels/codes/rounding.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"

namespace terngrad::cpu {

/// Target format for codes with one byte each.
struct CodeStore {
  /// kT2: bytes hold code + 1; kBits: bytes in the format itself; else bytes are packed to 2, 3, 4
  /// or 8 bits or into lanes.
  CodeFormat format = CodeFormat::kQ8;
  int lane_bits = 0;  // kLanes only
};

/// Quantizes the chunk that begins `begin` elements into a task.
/// @param gradient  the chunk's elements, widened
/// @param key       includes the task's worker
/// @param prefetch  memory to prefetch while draws are generated
/// @param draws     filled by the first call that needs them
/// @param codes     [count rounded up to a multiple of 64] out; from `count` on unspecified, for kBits zero
using QuantizeChunk = std::function<void(const QuantizeTask& task, const float* gradient, std::int64_t begin,
                                         std::int64_t count, const DrawKey& key, std::span<const std::byte> prefetch,
                                         ChunkDraws& draws, std::uint8_t* codes)>;

/// Quantizes all tasks with the stream's threads. Unused bits and bytes of payloads become zero.
/// @param rounding  kStratified: consecutive tasks for the same elements share the draws of a chunk
void quantize_tasks(std::span<const QuantizeTask> tasks, const CodeStore& store, Rounding rounding, const DrawKey& key,
                    Stream& stream, const QuantizeChunk& quantize_chunk);

}  // namespace terngrad::cpu
