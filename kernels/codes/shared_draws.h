// Draws that workers share (Rounding::kStratified): which tasks take the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/rounding.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

/// The rounding of one of `num_workers`: a single worker shares its draws with nobody, so kStratified is kStochastic.
constexpr Rounding rounding_for(Rounding rounding, int num_workers) {
  return rounding == Rounding::kStratified && num_workers == 1 ? Rounding::kStochastic : rounding;
}

/// @throws InvalidArgument if a worker has no stratum. @param who  name of the caller, for error messages
inline void require_stratum(Rounding rounding, std::uint32_t worker, int num_workers, const char* who) {
  TERNGRAD_REQUIRE(rounding != Rounding::kStratified || static_cast<std::int64_t>(worker) < num_workers, "[", who,
                   "] stratified draws are for workers below ", num_workers, ", got worker ", worker);
}

/// The tasks from `first` on that take the same draws: with kStratified those for the same elements of different
/// workers, with other roundings only one.
template <class Task>
std::span<const Task> tasks_of_one_draw(std::span<const Task> tasks, std::size_t first, Rounding rounding) {
  const Task& task = tasks[first];
  std::size_t end = first + 1;
  while (rounding == Rounding::kStratified && end < tasks.size() && tasks[end].draw_offset == task.draw_offset &&
         tasks[end].first == task.first && tasks[end].count == task.count &&
         tasks[end].block_elements == task.block_elements) {
    ++end;
  }
  return tasks.subspan(first, end - first);
}

}  // namespace terngrad
