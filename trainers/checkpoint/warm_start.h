// Warm start: a new run that begins with the parameters of another.
#pragma once

#include <span>

#include "kernels/tensor/layout.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {

/// What a new run takes from a checkpoint.
enum class WarmStart {
  kAll,       // every tensor; the checkpoint must hold those of this net, no more and no fewer
  kNoLogits,  // all but the logits, which keep what they were initialized with: fine-tuning, perhaps to other classes.
              // The checkpoint's logits may have another shape; tensors of names that this net lacks are refused
};

/// Copies the group "parameters" of a checkpoint into a flat buffer. Optimizer slots, step and averages of the other
/// run are left behind: a new run begins.
/// @param parameters  [layout.flat_elements()] in and out: tensors that are not taken, and padding, stay as they are
/// @throws DataError that names the first tensor that is missing, has another shape or no place; InvalidArgument if
/// `parameters` has another length
void warm_start(const Checkpoint& checkpoint, const Layout& layout, WarmStart what, std::span<float> parameters);

}  // namespace terngrad
