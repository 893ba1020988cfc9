// NetPlan: a net spec with its shapes, paddings and tensors worked out; every backend reads it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kernels/layout.h"
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

/// One layer with everything a backend needs to build it.
struct LayerPlan {
  std::string name;
  std::variant<ConvolutionSpec, FullyConnectedSpec, MaxPoolSpec, AveragePoolSpec, LrnSpec> operation;
  ImageShape input;
  ImageShape output;  // a vector is a 1 x 1 image
  ImagePadding padding;
  int weights = -1;  // index of the tensor in the layout, or -1
  int biases = -1;
  /// The layer sets to zero the gradients of its outputs that are not positive, before its own backward pass: the
  /// derivative of a ReLU. It is its own ReLU, or that of the layer before a max pool: the two commute (the maximum of
  /// rectified values is the rectified maximum, and a window whose maximum is 0 passes nothing on either way), and
  /// after the pool there are fewer values to visit.
  bool applies_relu_gradient = false;
};

/// How one tensor is filled and treated. Indices are those of the layout.
struct TensorPlan {
  Initializer initializer;
  bool is_regularized = false;
};

struct NetPlan {
  std::string name;
  ImageShape image;
  int num_classes = 0;
  std::vector<LayerPlan> layers;
  Layout layout;
  std::vector<TensorPlan> tensors;
};

/// Works out shapes, paddings and tensors.
/// @throws InvalidArgument, naming the layer, where a shape is impossible: an empty image, a window larger than an
///         unpadded image, a tensor or an activation of 2^31 or more elements; and for an LRN whose numbers do not keep
///         the base of the power positive
NetPlan plan_net(const NetSpec& spec, const ImageShape& image, int num_classes);

}  // namespace terngrad
