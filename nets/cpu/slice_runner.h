// SliceRunner: runs all layers of a net on one slice of a batch.
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

/// Runs a net on a fixed number of examples, with its own layers, activations and scratch memory: one runner per slot
/// that works in parallel. Construct it and run it under the same LibraryThreads. Allocates in the constructor only.
class SliceRunner {
 public:
  /// @param plan         must outlive the runner
  /// @param num_threads  LibraryThreads in use
  /// @param loss         NetOptions::loss
  SliceRunner(const dnnl::engine& engine, const NetPlan& plan, int num_examples, int num_threads, Mode mode,
              Loss loss = {});

  /// Sets the parameters [flat_elements] of the next calls; they must not change meanwhile.
  void set_parameters(const float* parameters);

  /// @param images  [num_examples, height, width, channels]
  /// @param visit   called after each layer of the mode; may be empty
  /// @return the logits, [num_examples, num_classes], valid until the next call
  std::span<const float> forward(const Pass& pass, const float* images, const OutputVisitor& visit = {});

  /// Forward, loss and backward.
  /// @param gradient    [flat_elements] out
  /// @param logits_out  [num_examples, num_classes] out, or empty
  WorkerLoss compute_gradient(const Pass& pass, const float* images, std::span<const std::int32_t> labels,
                              float* gradient, const std::function<void(int segment)>& on_segment_ready,
                              std::span<float> logits_out = {});

 private:
  void run_backward(std::size_t layer, float* gradient);

  const NetPlan& plan_;
  Loss loss_;
  int num_threads_;
  Scratchpad scratchpad_;
  DnnlContext context_;
  std::vector<std::unique_ptr<Layer>> layers_;  // parallel to plan_.layers; null for layers that the mode skips
  PassMemory memory_;
};

}  // namespace terngrad::cpu
