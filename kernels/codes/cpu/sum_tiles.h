// Distributes the chunks of sums over workers to threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/codes/code_sum.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/slice.h"

namespace terngrad::cpu {

/// Results with at least this many elements (64 MiB) are stored past the caches: the optimizer would not find them
/// there anyway, and a cached store first reads the line that it overwrites. For 8 t2 messages of 25 million codes, one
/// core produced 15.4 GB/s of means with streaming and 10.2 GB/s with cached stores, two cores 28.2 and 20.5 (2-core
/// Xeon, AVX-512, 480 MB of third-level cache).
inline constexpr std::int64_t kStreamingElements = std::int64_t{1} << 24;

/// Calls body(task, begin, count, stores) for every chunk of every task, with the stream's threads. `begin` is the
/// chunk's offset in the task.
template <class Body>
void for_each_sum_tile(std::span<const CodeSumTask> tasks, Stream& stream, const Body& body) {
  std::int64_t num_tiles = 0;
  for (const CodeSumTask& task : tasks) num_tiles += (task.count + kChunkElements - 1) / kChunkElements;
  const Stores stores = num_tiles * kChunkElements >= kStreamingElements ? Stores::kStreaming : Stores::kCached;
  parallel_for(stream.num_threads(), num_tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t index = 0;  // first tile of the task
    for (const CodeSumTask& task : tasks) {
      const std::int64_t task_tiles = (task.count + kChunkElements - 1) / kChunkElements;
      for (std::int64_t tile = std::max(begin, index); tile < std::min(end, index + task_tiles); ++tile) {
        const std::int64_t at = (tile - index) * kChunkElements;
        body(task, at, std::min(kChunkElements, task.count - at), stores);
      }
      index += task_tiles;
    }
  });
}

}  // namespace terngrad::cpu
