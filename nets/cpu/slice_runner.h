// SliceRunner: all layers of a net for one slice of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "nets/cpu/layer.h"
#include "nets/net.h"
#include "nets/net_plan.h"
#include "nets/pass_memory.h"

namespace terngrad::cpu {

/// Runs a net on a fixed number of examples at a time, with layers, activations and scratch memory of its own: one
/// runner per slot that works side by side. Make it and run it under the same LibraryThreads. All memory is allocated
/// when it is made.
class SliceRunner {
 public:
  /// @param plan         must outlive the runner
  /// @param num_threads  those of LibraryThreads
  SliceRunner(const dnnl::engine& engine, const NetPlan& plan, int num_examples, int num_threads, Mode mode);

  /// Takes the parameters [flat_elements] for the coming calls; they must stay as they are meanwhile.
  void set_parameters(const float* parameters);

  /// @param images  [num_examples, height, width, channels]
  /// @return the logits, [num_examples, num_classes], valid until the next call
  std::span<const float> forward(const Pass& pass, const float* images);

  /// Forward, loss and backward. @param gradient  [flat_elements] out
  WorkerLoss compute_gradient(const Pass& pass, const float* images, std::span<const std::int32_t> labels,
                              float* gradient, const std::function<void(int segment)>& on_segment_ready);

 private:
  void run_backward(std::size_t layer, float* gradient);

  const NetPlan& plan_;
  int num_threads_;
  Scratchpad scratchpad_;
  DnnlContext context_;
  std::vector<std::unique_ptr<Layer>> layers_;  // beside plan_.layers; null for one that the mode leaves out
  PassMemory memory_;
};

}  // namespace terngrad::cpu
