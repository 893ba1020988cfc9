// PassMemory: memory for a net's activations and their gradients, on any device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/device.h"
#include "nets/mode.h"
#include "nets/net_plan.h"
#include "nets/shared_buffers.h"

namespace terngrad {

/// Examples per predict call of each thread on the CPU. Fixed, so that logits depend on parameters and images only.
/// More would only enlarge activations; fewer would make matrix products inefficient.
inline constexpr int kCpuPredictExamples = 32;

/// kWanted if backward of layer `index` must compute the gradient of any of its inputs.
InputGradient input_gradient_of(const NetPlan& plan, std::size_t index);

/// Assigns memory to the inputs, outputs and gradients of each layer; values with disjoint lifetimes share memory.
/// Activations are [num_examples, height, width, channels].
class PassMemory {
 public:
  /// An addition after a layer's backward pass: accumulates the gradient of an output with several consumers.
  struct Sum {
    float* sum = nullptr;
    const float* addend = nullptr;
    std::int64_t num_elements = 0;
  };
  /// Arguments of one layer. The first consumer of an output in backward order (then in order of inputs) writes its
  /// gradient; later consumers write separate addends.
  struct Place {
    float* output = nullptr;              // nullptr: forward skips the layer
    std::int64_t num_outputs = 0;         // elements of `output`
    float* output_gradient = nullptr;     // nullptr: backward skips the layer
    std::vector<const float*> inputs;     // nullptr for the image
    std::vector<float*> input_gradients;  // outputs of backward; nullptr if not wanted
    std::vector<Sum> sums;                // to run after backward
  };

  /// Plans and allocates memory for `num_examples`. In inference mode there are no gradients, an output is kept only
  /// until its last consumer has run, and layers for training only get no memory.
  PassMemory(const NetPlan& plan, std::int64_t num_examples, Mode mode, const Device& device);

  /// Numbers of floats that the constructor allocates.
  struct Elements {
    std::int64_t activations = 0;
    std::int64_t gradients = 0;  // gradients of activations
  };
  static Elements elements(const NetPlan& plan, std::int64_t num_examples, Mode mode);

  Place& place(std::size_t layer) { return places_[layer]; }

 private:
  /// Buffer index for "no memory", for example of the image's gradient.
  static constexpr std::size_t kNoBuffer = static_cast<std::size_t>(-1);
  struct GradientRoute {
    std::size_t target = kNoBuffer;  // buffer of the sum; kNoBuffer: gradient not wanted
    std::size_t addend = kNoBuffer;  // buffer of the addend; kNoBuffer: the layer writes the target itself
  };
  /// Buffer indices of a layer, before allocation.
  struct Route {
    std::size_t output = kNoBuffer;           // index in activations_
    std::size_t output_gradient = kNoBuffer;  // index in gradients_
    std::vector<GradientRoute> inputs;
  };

  /// Plans without allocating.
  PassMemory(const NetPlan& plan, std::int64_t num_examples, Mode mode);
  void place_activations();
  bool is_skipped(std::size_t layer) const { return mode_ == Mode::kInference && plan_.layers[layer].is_training_only; }
  void place_gradients();
  void bind();
  std::int64_t num_elements(std::size_t layer) const {
    return num_examples_ * plan_.layers[layer].output.num_elements();
  }

  const NetPlan& plan_;
  std::int64_t num_examples_;
  Mode mode_;
  std::vector<Route> routes_;  // parallel to plan_.layers, like places_
  std::vector<Place> places_;
  SharedBuffers activations_;  // outputs of layers: all of them in training, else only until their last use
  SharedBuffers gradients_;    // gradients of outputs, live from the first consumer's backward to the layer's own
};

}  // namespace terngrad
