// Warm start: initializes a new run with the parameters of another.
#pragma once

#include <span>

#include "kernels/tensor/layout.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {

/// The parameters that a new run takes from a checkpoint.
enum class WarmStart {
  kAll,       // every tensor; the checkpoint must hold exactly those of this net
  kNoLogits,  // all but the logits, also of auxiliary classifiers, which keep their initial values: fine-tuning,
              // perhaps to other classes. The checkpoint's may have another shape; tensors that this net does not have
              // are refused
};

/// Copies the group "parameters" of a checkpoint into a flat buffer. Ignores optimizer slots, step and averages.
/// @param parameters  [layout.flat_elements()] in and out; tensors that are not taken, and padding, are unchanged
/// @throws DataError naming the first tensor that is missing, has another shape or is not in the net; InvalidArgument
/// if `parameters` has another length
void warm_start(const Checkpoint& checkpoint, const Layout& layout, WarmStart what, std::span<float> parameters);

}  // namespace terngrad
