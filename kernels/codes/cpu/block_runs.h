// Iterates over runs of elements that share one scaler.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terngrad::cpu {

/// Calls body(block, done, run_count) for each run of a chunk that shares a scaler, in order. `block` is relative to
/// the first block that the task's slice touches, `done` to the chunk's first element.
/// @param begin  offset of the chunk in the task
template <class Task, class Body>
void for_each_block_run(const Task& task, std::int64_t begin, std::int64_t count, const Body& body) {
  const std::int64_t size = task.block_elements;
  if (size == 0) return body(std::int64_t{0}, std::int64_t{0}, count);
  const std::int64_t first_block = task.first / size;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t position = task.first + begin + done;
    const std::int64_t run_count = std::min(count - done, size - position % size);
    body(position / size - first_block, done, run_count);
    done += run_count;
  }
}

}  // namespace terngrad::cpu
