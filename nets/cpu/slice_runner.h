// SliceRunner: all layers of a net for one slice of a batch.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "nets/cpu/layer.h"
#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cpu {

/// Runs a net on a fixed number of examples at a time, with layers, activations and scratch memory of its own: one
/// runner per slot that works side by side. Make it and run it under the same LibraryThreads.
class SliceRunner {
 public:
  /// @param plan         must outlive the runner
  /// @param num_threads  those of LibraryThreads
  SliceRunner(const dnnl::engine& engine, const NetPlan& plan, int num_examples, int num_threads, Mode mode);

  /// Takes the parameters [flat_elements] for the coming calls; they must stay as they are meanwhile.
  void set_parameters(const float* parameters);

  /// @param images  [num_examples, height, width, channels]
  /// @return the logits, [num_examples, num_classes], valid until the next call
  std::span<const float> forward(const float* images);

  /// Forward, loss and backward. @param gradient  [flat_elements] out
  WorkerLoss compute_gradient(const float* images, std::span<const std::int32_t> labels, float* gradient,
                              const std::function<void(int segment)>& on_segment_ready);

 private:
  const float* input_of(std::size_t layer, const float* images) const {
    return layer == 0 ? images : activations_[layer - 1].data();
  }

  const NetPlan& plan_;
  Scratchpad scratchpad_;
  DnnlContext context_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Buffer<float>> activations_;  // the output of each layer
  Buffer<float> gradients_[2];              // of a layer's output and input by turns
};

}  // namespace terngrad::cpu
