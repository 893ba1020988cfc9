// Plan: which tensors there are, and the codec of each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/tensor/layout.h"
#include "python/src/tensors.h"

namespace terngrad::python {

struct Plan {
  Layout layout;
  CodecPlan codecs;
  int num_workers;
  std::string memory;  // what the codec has by default: a preset's, or error feedback for codecs that want it

  /// The segments' numbers in order; @throws InvalidArgument unless there are as many tensors as the plan has.
  void require_all(std::size_t num_tensors, const std::string& what) const;
  /// Of the plan's tensors `segments`, in this order. @param selection  their layout
  /// @throws InvalidArgument for a tensor of another shape or of another type than the first
  TensorTable table(const Layout& selection, const std::vector<Tensor>& tensors, const std::string& whose) const;
};

}  // namespace terngrad::python
