// Layer specs: what a net is made of, said once for every backend.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace terngrad {

/// How a window meets the edge of an image, as in TensorFlow: `kSame` gives ceil(size / stride) outputs and pads with
/// an odd total's extra row or column at the bottom or right; `kValid` pads nothing.
enum class Padding { kSame, kValid };

/// What is applied to each output of a layer with weights.
enum class Activation { kNone, kRelu };

/// How a tensor is filled at the start: see initializer.h.
struct Initializer {
  enum class Kind { kConstant, kTruncatedNormal };
  Kind kind = Kind::kConstant;
  float value = 0;  // the constant, or the nominal standard deviation (mean 0)

  static Initializer constant(float value) { return {Kind::kConstant, value}; }
  static Initializer truncated_normal(float stddev) { return {Kind::kTruncatedNormal, stddev}; }
};

/// Whether weight decay applies to the weights of a layer. Biases are never regularized.
enum class Regularized { kNo, kYes };

/// out[y, x, o] = activation(b[o] + sum over i, j, c of in[y stride + i - pad_top, x stride + j - pad_left, c] *
/// w[i, j, c, o]). Tensors: `<name>/weights` [kernel, kernel, in, out] and `<name>/biases` [out].
struct ConvolutionSpec {
  int num_outputs = 0;
  int kernel = 0;
  int stride = 1;
  Padding padding = Padding::kSame;
  Activation activation = Activation::kNone;
  Initializer weights;
  Initializer biases;
  Regularized regularized = Regularized::kYes;
};

/// out[o] = activation(b[o] + sum over i of in[i] * w[i, o]), the input flattened in the order height, width, channel.
/// Tensors: `<name>/weights` [in, out] and `<name>/biases` [out].
struct FullyConnectedSpec {
  int num_outputs = 0;  // 0: the number of classes; this is then the logits layer
  Activation activation = Activation::kNone;
  Initializer weights;
  Initializer biases;
  Regularized regularized = Regularized::kYes;
};

/// out[y, x, c] = max over the window; padding never wins. The gradient goes to the first of equal maxima.
struct MaxPoolSpec {
  int window = 0;
  int stride = 1;
  Padding padding = Padding::kSame;
};

/// out[y, x, c] = mean over the part of the window that lies in the image: padding is not counted, as in TensorFlow.
struct AveragePoolSpec {
  int window = 0;
  int stride = 1;
  Padding padding = Padding::kSame;
};

/// Local response normalization: out[y, x, c] = in[y, x, c] / (k + alpha * sum over d of in[y, x, d]^2)^beta, with d
/// from c - radius to c + radius where there is such a channel. The sum is not divided by the size of the window
/// (PyTorch's and the AlexNet paper's alpha are for other windows: PyTorch divides). Krizhevsky et al., "ImageNet
/// Classification with Deep Convolutional Neural Networks", NIPS 2012, section 3.3.
struct LrnSpec {
  int radius = 0;
  float k = 1;
  float alpha = 0;
  float beta = 0.75f;
};

/// One layer: a name, unique in its net, and what it computes. A new kind of layer is one more alternative here, one
/// case in plan_net and one factory per backend.
struct LayerSpec {
  std::string name;
  std::variant<ConvolutionSpec, FullyConnectedSpec, MaxPoolSpec, AveragePoolSpec, LrnSpec> operation;
};

/// A net: each layer takes the output of the one before it, the first takes the image. The last layer gives the logits.
struct NetSpec {
  std::string name;
  std::vector<LayerSpec> layers;
};

}  // namespace terngrad
