// Quantizing tasks on the CPU, whatever the codes: chunks are dealt to threads, quantized to a byte per code, and
// packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/codes/quantize_task.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"

namespace terngrad::cpu {

/// How codes, given as a byte each, are stored.
struct CodeStore {
  /// kT2: bytes are code + 1; kBits: bytes are those of the format; else as they are, in 4 or 8 bits or in lanes.
  CodeFormat format = CodeFormat::kQ8;
  int lane_bits = 0;  // of kLanes
};

/// Quantizes the chunk of a task that begins `begin` elements into it.
/// @param gradient  the chunk's elements, widened
/// @param key       of the task's worker
/// @param prefetch  what to fetch into the cache while draws are made
/// @param codes     [count rounded up to a multiple of 64] out; arbitrary from `count` on, of kBits zero
using QuantizeChunk =
    std::function<void(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                       const DrawKey& key, std::span<const std::byte> prefetch, std::uint8_t* codes)>;

/// Quantizes all tasks with the stream's threads. Unused bits and bytes of payloads are zero.
void quantize_tasks(std::span<const QuantizeTask> tasks, const CodeStore& store, const DrawKey& key, Stream& stream,
                    const QuantizeChunk& quantize_chunk);

}  // namespace terngrad::cpu
