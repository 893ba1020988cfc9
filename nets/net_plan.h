// NetPlan: a net spec with computed shapes, paddings and tensors, the input of every backend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor/layout.h"
#include "nets/layer_spec.h"
#include "nets/net.h"

namespace terngrad {

/// Rows and columns added around an image.
struct ImagePadding {
  int top = 0;
  int bottom = 0;
  int left = 0;
  int right = 0;
};

/// Index of the net's input in LayerPlan::inputs.
inline constexpr int kImageIndex = -1;

/// One layer with everything that a backend needs to build it. Tensors are indices in NetPlan::layout or, for
/// `moving_*`, in NetPlan::state_layout; -1 if the layer has no such tensor.
struct LayerPlan {
  std::string name;
  LayerOperation operation;
  std::vector<int> inputs;               // for each input, the index of its layer, or kImageIndex
  std::vector<ImageShape> input_shapes;  // parallel to `inputs`
  ImageShape input;                      // shape of the first input
  ImageShape output;                     // a vector is a 1 x 1 image
  WindowSize window;                     // for convolutions and pools
  ImagePadding padding;
  int weights = -1;
  int biases = -1;
  int beta = -1;
  int gamma = -1;
  int moving_mean = -1;
  int moving_variance = -1;
  int moving_weight = -1;
  std::vector<int> tensors;  // all tensors of the layer in NetPlan::layout, in its order
  /// Number of layer inputs that use this output; 0 for the last layer and for layers that only a loss uses.
  int num_consumers = 0;
  /// True if only auxiliary losses depend on this layer: inference skips it.
  bool is_training_only = false;
  /// True if backward must run here: a tensor in or below this layer needs the gradient of this output.
  bool needs_gradient = false;
  /// True if the layer zeroes the gradients of outputs that are not positive before its backward pass (derivative of a
  /// ReLU). The ReLU is the layer's own, or for a max pool that of the convolution or fully connected layer below, if
  /// the pool is its only consumer: ReLU and max pool commute, also in their gradients, and the pool has fewer outputs
  /// to visit. A batch norm or a sum always handles its own ReLU.
  bool applies_relu_gradient = false;
};

/// Initialization and regularization of one tensor. Indices are those of the layout.
struct TensorPlan {
  Initializer initializer;  // kConstant, kTruncatedNormal or kUniform
  bool is_regularized = false;
};

/// AuxiliaryLoss of NetSpec with the index of its layer.
struct AuxiliaryLossPlan {
  int layer = 0;
  float weight = 1;
};

/// The complete plan of a net. Layers are in the order of NetSpec.
struct NetPlan {
  std::string name;
  ImageShape image;
  int num_classes = 0;
  std::vector<LayerPlan> layers;
  Layout layout;
  std::vector<TensorPlan> tensors;
  Layout state_layout;
  std::vector<float> state_values;  // initial value of each state tensor's elements
  std::vector<AuxiliaryLossPlan> auxiliary_losses;
  float label_smoothing = 0;
};

/// Computes the graph, shapes, paddings, tensors and state.
/// @throws InvalidArgument, naming the layer, if a name is empty, repeated or kImageInput; an input is unknown or
///         listed later, or the operation takes another number of inputs; the output of a layer other than the last
///         is used by nothing, or by both a layer and an auxiliary loss; an auxiliary loss has an unknown layer, a
///         layer whose number of outputs is not the number of classes, or a weight that is not positive; a number in
///         the spec is out of range (for an LRN: k^(-beta - 1) must be finite); a shape is impossible: an empty image,
///         a window larger than an unpadded image, a tensor or an activation of 2^31 or more elements. Naming the net,
///         if the image is smaller than NetSpec::smallest_side or the label smoothing is out of range
NetPlan plan_net(const NetSpec& spec, const ImageShape& image, int num_classes);

/// The index of each layer's first draw for slices of `num_examples`: dropout layers, in order, have one draw per
/// element of their slice, rounded up to a whole block of 4; other layers have none. Layers with keep_prob 1 count, so
/// that a layer's draws do not depend on the probabilities of others.
std::vector<std::int64_t> first_dropout_draws(const NetPlan& plan, int num_examples);

}  // namespace terngrad
