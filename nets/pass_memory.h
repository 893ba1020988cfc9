// PassMemory: the activations of a net and their gradients, on any device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/device.h"
#include "nets/mode.h"
#include "nets/net_plan.h"
#include "nets/shared_buffers.h"

namespace terngrad {

/// Examples that a net on the CPU predicts at a time, in each of its threads: fixed, so that logits depend on nothing
/// but parameters and images. More would only enlarge activations; fewer would starve the matrix products.
inline constexpr int kCpuPredictExamples = 32;

/// Whether backward of layer `index` is asked for the gradient of any of its inputs.
InputGradient input_gradient_of(const NetPlan& plan, std::size_t index);

/// Where each layer of a net finds its inputs and leaves its outputs, in memory that values share whose lives do not
/// overlap. Activations are [num_examples, height, width, channels].
class PassMemory {
 public:
  /// One addend of the gradient of an output that several layers take: to be added after the layer's backward pass.
  struct Sum {
    float* sum = nullptr;
    const float* addend = nullptr;
    std::int64_t num_elements = 0;
  };
  /// What one layer works on. The consumers of an output are visited in backward order, and inputs of one layer in
  /// their own: the first writes the output's gradient, later ones write their own addend.
  struct Place {
    float* output = nullptr;              // nullptr: forward skips the layer
    std::int64_t num_outputs = 0;         // elements of `output`
    float* output_gradient = nullptr;     // nullptr: backward skips the layer
    std::vector<const float*> inputs;     // nullptr for the image
    std::vector<float*> input_gradients;  // what backward writes; nullptr where it is not wanted
    std::vector<Sum> sums;                // after backward
  };

  /// Works the places out for `num_examples`, and allocates. In inference mode there are no gradients, an output is
  /// kept only until the last layer that takes it has run, and layers of training only have no places.
  PassMemory(const NetPlan& plan, std::int64_t num_examples, Mode mode, const Device& device);

  /// How many floats the constructor allocates.
  struct Elements {
    std::int64_t activations = 0;
    std::int64_t gradients = 0;  // of activations
  };
  static Elements elements(const NetPlan& plan, std::int64_t num_examples, Mode mode);

  Place& place(std::size_t layer) { return places_[layer]; }

 private:
  /// Stands for memory that there is none of: the gradient of an image, say.
  static constexpr std::size_t kNoBuffer = static_cast<std::size_t>(-1);
  struct GradientRoute {
    std::size_t target = kNoBuffer;  // of the sum; kNoBuffer: not wanted
    std::size_t addend = kNoBuffer;  // what is added to it; kNoBuffer: the layer writes the target itself
  };
  /// A layer's buffers, before they have addresses.
  struct Route {
    std::size_t output = kNoBuffer;           // in activations_
    std::size_t output_gradient = kNoBuffer;  // in gradients_
    std::vector<GradientRoute> inputs;
  };

  /// Works the places out and allocates nothing.
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
  std::vector<Route> routes_;  // beside plan_.layers, like places_
  std::vector<Place> places_;
  SharedBuffers activations_;  // outputs of layers: all of them for a backward pass, else those still to be read
  SharedBuffers gradients_;    // of outputs of layers, from their first consumer to the layer itself
};

}  // namespace terngrad
