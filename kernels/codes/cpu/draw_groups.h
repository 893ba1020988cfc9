// Distributes groups of chunks over threads, for kernels that draw; workers who share draws come one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/codes/cpu/chunk_draws.h"
#include "kernels/codes/shared_draws.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/parallel.h"

namespace terngrad::cpu {

/// Calls encode(task, first, count, key, draws) for each group of `group_chunks` chunks of each task, with the stream's
/// threads. `first` is relative to the task, and key includes its worker. `draws` has one entry per chunk: unfilled, or
/// filled by another worker's task for the same elements.
template <class Task, class Encode>
void for_each_group_of_one_draw(std::span<const Task> tasks, std::int64_t group_chunks, Rounding rounding,
                                const DrawKey& key, Stream& stream, const Encode& encode) {
  const std::int64_t group = group_chunks * kChunkElements;
  const auto groups_of = [&](const Task& task) { return (task.count + group - 1) / group; };
  const auto members_from = [&](std::size_t first) { return tasks_of_one_draw(tasks, first, rounding); };
  std::int64_t num_groups = 0;
  for (std::size_t i = 0; i < tasks.size(); i += members_from(i).size()) num_groups += groups_of(tasks[i]);
  parallel_for(stream.num_threads(), num_groups, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto num_draws = static_cast<std::size_t>(group_chunks);
    const auto of_chunks = std::make_unique_for_overwrite<ChunkDraws[]>(num_draws);
    const std::span<ChunkDraws> draws(of_chunks.get(), num_draws);
    std::int64_t index = 0;  // first group of the task
    for (std::size_t i = 0; i < tasks.size() && index < end;) {
      const std::span<const Task> members = members_from(i);
      const std::int64_t task_groups = groups_of(members[0]);
      for (std::int64_t g = std::max(begin, index); g < std::min(end, index + task_groups); ++g) {
        const std::int64_t first = (g - index) * group;
        for (ChunkDraws& each : draws) each.are_filled = false;
        for (const Task& task : members) {
          DrawKey task_key = key;
          task_key.worker += task.worker;
          encode(task, first, std::min(group, task.count - first), task_key, draws);
        }
      }
      index += task_groups;
      i += members.size();
    }
  });
}

}  // namespace terngrad::cpu
