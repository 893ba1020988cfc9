// SliceRunner: all layers of a net for one slice of a batch.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "nets/cpu/layer.h"
#include "nets/cpu/shared_buffers.h"
#include "nets/net.h"
#include "nets/net_plan.h"

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
  /// Stands for memory that there is none of: the gradient of an image, say.
  static constexpr std::size_t kNoBuffer = static_cast<std::size_t>(-1);

  /// Where the gradient of one input of a layer goes. The consumers of an output are visited in backward order, and
  /// inputs of one layer in their own: the first writes the output's gradient, later ones write one of their own, which
  /// is added.
  struct GradientRoute {
    std::size_t target = kNoBuffer;  // of the sum; kNoBuffer: not wanted
    std::size_t addend = kNoBuffer;  // what is added to it; kNoBuffer: the layer writes the target itself
  };

  /// A layer and the memory that it works on; pointers are those of `Layer::forward` and `backward`.
  struct Step {
    std::unique_ptr<Layer> layer;
    std::size_t output = kNoBuffer;           // in activations_
    std::size_t output_gradient = kNoBuffer;  // in gradients_; kNoBuffer: backward skips the layer
    std::vector<GradientRoute> routes;        // beside the inputs
    std::vector<const float*> input_data;
    std::vector<float*> input_gradient_data;
  };

  const LayerPlan& plan_of(std::size_t step) const { return plan_.layers[step]; }
  std::int64_t num_elements(std::size_t step) const { return num_examples_ * plan_of(step).output.num_elements(); }
  bool wants_gradient(int layer) const;
  void place_activations(Mode mode);
  void place_gradients();
  void bind_memory();
  void run_backward(std::size_t step, float* gradient);

  const NetPlan& plan_;
  int num_examples_;
  int num_threads_;
  Scratchpad scratchpad_;
  DnnlContext context_;
  std::vector<Step> steps_;    // beside plan_.layers
  SharedBuffers activations_;  // outputs of layers: all of them for a backward pass, else those still to be read
  SharedBuffers gradients_;    // of outputs of layers, from their first consumer to the layer itself
};

}  // namespace terngrad::cpu
