// Checks of the tasks that read gradients, shared by both backends.
#pragma once

#include <span>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/element_type.h"

namespace terngrad::common {

/// Common element type of all tasks of a call; float32 if there are none.
/// @param who  name of the caller, for error messages
/// @throws InvalidArgument if the types differ or a gradient is not aligned to its element size
template <class Task>
ElementType element_type_of(std::span<const Task> tasks, const char* who) {
  for (const Task& task : tasks) {
    TERNGRAD_REQUIRE(task.type == tasks.front().type, "[", who, "] tasks of one call have one element type, got ",
                     element_type_name(tasks.front().type), " and ", element_type_name(task.type));
    require_aligned_elements(task.gradient, task.type, who);
  }
  return tasks.empty() ? ElementType::kFloat32 : tasks.front().type;
}

}  // namespace terngrad::common
