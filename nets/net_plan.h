// NetPlan: a net spec with its shapes, paddings and tensors worked out; every backend reads it.
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

/// The index by which LayerPlan::inputs means the net's input.
inline constexpr int kImageIndex = -1;

/// One layer with everything a backend needs to build it. Tensors are indices in NetPlan::layout or, for `moving_*`, in
/// NetPlan::state_layout; -1 where the layer has none.
struct LayerPlan {
  std::string name;
  LayerOperation operation;
  std::vector<int> inputs;               // for each input, the layer whose output it is, or kImageIndex
  std::vector<ImageShape> input_shapes;  // beside `inputs`
  ImageShape input;                      // shape of the first
  ImageShape output;                     // a vector is a 1 x 1 image
  WindowSize window;                     // of a convolution or a pool
  ImagePadding padding;
  int weights = -1;
  int biases = -1;
  int beta = -1;
  int gamma = -1;
  int moving_mean = -1;
  int moving_variance = -1;
  int moving_weight = -1;
  std::vector<int> tensors;  // all of the layer's in NetPlan::layout, in its order
  /// How many inputs of layers are this output; 0 for the last layer and those of auxiliary losses only.
  int num_consumers = 0;
  /// Only auxiliary losses depend on this layer: inference leaves it out.
  bool is_training_only = false;
  /// Whether backward has anything to do here: some tensor in or below this layer needs the gradient of this output.
  bool needs_gradient = false;
  /// The layer sets to zero the gradients of its outputs that are not positive, before its own backward pass: the
  /// derivative of a ReLU. It is its own ReLU, or that of the convolution or fully connected layer below a max pool
  /// that nothing else takes from: the two commute (the maximum of rectified values is the rectified maximum, and a
  /// window whose maximum is 0 passes nothing on either way), and after the pool there are fewer values to visit. A
  /// batch norm or a sum sees to its own ReLU whatever follows.
  bool applies_relu_gradient = false;
};

/// How one tensor is filled and treated. Indices are those of the layout.
struct TensorPlan {
  Initializer initializer;  // kConstant, kTruncatedNormal or kUniform
  bool is_regularized = false;
};

/// AuxiliaryLoss of NetSpec with the index of its layer.
struct AuxiliaryLossPlan {
  int layer = 0;
  float weight = 1;
};

struct NetPlan {
  std::string name;
  ImageShape image;
  int num_classes = 0;
  std::vector<LayerPlan> layers;
  Layout layout;
  std::vector<TensorPlan> tensors;
  Layout state_layout;
  std::vector<float> state_values;  // what every element of a state tensor is at the start
  std::vector<AuxiliaryLossPlan> auxiliary_losses;
  float label_smoothing = 0;
};

/// Works out the graph, shapes, paddings, tensors and state.
/// @throws InvalidArgument, naming the layer: where a name is empty, repeated or kImageInput; an input is unknown or
///         listed later, or there are more or fewer than the operation takes; a layer is not the last and neither a
///         layer nor an auxiliary loss takes its output, or both do; an auxiliary loss names no layer, has one that
///         does not give as many outputs as there are classes, or a weight that is not positive; a number in its spec
///         is out of range (of an LRN: that keeps the base of its power positive); or a shape is impossible: an empty
///         image, a window larger than an unpadded image, a tensor or an activation of 2^31 or more elements. Naming
///         the net: where the image is smaller than NetSpec::smallest_side, or the label smoothing is out of range
NetPlan plan_net(const NetSpec& spec, const ImageShape& image, int num_classes);

/// The index of the first draw of each layer for slices of `num_examples`: dropout layers, in order, have one for each
/// element of their slice, rounded up to a whole block of 4; other layers have none. Layers with keep_prob 1 count, so
/// that no layer's draws depend on another's probability.
std::vector<std::int64_t> first_dropout_draws(const NetPlan& plan, int num_examples);

}  // namespace terngrad
