// Plan: the tensors of a layout and the codec of each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/tensor/layout.h"
#include "python/src/tensors.h"

namespace terngrad::python {

/// Layout and codecs for a number of workers.
struct Plan {
  Layout layout;
  CodecPlan codecs;
  int num_workers;
  std::string memory;  // the codec's default: a preset's memory, or error feedback for codecs that want it

  /// @throws InvalidArgument unless the plan has `num_tensors` tensors. @param what  name in the message
  void require_all(std::size_t num_tensors, const std::string& what) const;
  /// Table of the tensors of a part. @param selection  their layout. @param whose  prefix of names in messages
  /// @throws InvalidArgument for a tensor of a wrong shape, or of another type than the first
  TensorTable table(const Layout& selection, const std::vector<Tensor>& tensors, const std::string& whose) const;
};

}  // namespace terngrad::python
