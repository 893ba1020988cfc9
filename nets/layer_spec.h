// Layer specs: what a net is made of, said once for every backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace terngrad {

/// How a window meets the edge of an image. As in TensorFlow, `kSame` gives ceil(size / stride) outputs and pads with
/// an odd total's extra row or column at the bottom or right, and `kValid` pads nothing. `kHalf` gives as many outputs
/// as kSame and pads floor((window - 1) / 2) rows at the top and columns at the left whatever the stride, and as many
/// at the bottom and right as windows reach: PyTorch's padding = (window - 1) / 2.
enum class Padding { kSame, kValid, kHalf };

/// Rows and columns of the input that an output sees.
struct WindowSize {
  int height = 0;
  int width = 0;

  constexpr WindowSize() = default;
  constexpr WindowSize(int side) : height(side), width(side) {}  // NOLINT(google-explicit-constructor): 3 is 3 x 3
  constexpr WindowSize(int rows, int columns) : height(rows), width(columns) {}
  constexpr std::int64_t num_elements() const { return std::int64_t{height} * width; }
  friend bool operator==(const WindowSize&, const WindowSize&) = default;
};

/// What is applied to each output of a layer with tensors.
enum class Activation { kNone, kRelu };

/// How a tensor is filled at the start: see initializer.h. The last three are of weights, and depend on their fans, the
/// numbers of inputs that an output sees and of outputs that an input is seen by: window height * width times the
/// channels of the weights' shape, in and out.
struct Initializer {
  enum class Kind {
    kConstant,         // value
    kTruncatedNormal,  // nominal standard deviation value, mean 0
    kUniform,          // from -value up to value
    kXavierUniform,    // uniform of value sqrt(6 / (fan_in + fan_out)); Glorot and Bengio, AISTATS 2010
    kScaledNormal,     // truncated normal of sqrt(1.3 value / fan_in): 1.3 makes up for what truncation takes from the
                       // variance, and value 2 is for ReLUs; He et al., ICCV 2015
    kFanInUniform,     // uniform of sqrt(3 / fan_in), of variance 1 / fan_in: what Caffe calls xavier
  };
  Kind kind = Kind::kConstant;
  float value = 0;

  static Initializer constant(float value) { return {Kind::kConstant, value}; }
  static Initializer truncated_normal(float stddev) { return {Kind::kTruncatedNormal, stddev}; }
  static Initializer uniform(float limit) { return {Kind::kUniform, limit}; }
  static Initializer xavier_uniform() { return {Kind::kXavierUniform, 0}; }
  static Initializer scaled_normal(float factor) { return {Kind::kScaledNormal, factor}; }
  static Initializer fan_in_uniform() { return {Kind::kFanInUniform, 0}; }
};

/// Whether weight decay applies to the weights of a layer. Biases are never regularized.
enum class Regularized { kNo, kYes };

/// out[y, x, o] = activation(b[o] + sum over i, j, c of in[y stride + i - pad_top, x stride + j - pad_left, first + c]
/// * w[i, j, c, o]). With `groups` groups, channels and outputs are cut into as many equal runs, and outputs see the
/// channels of their own run only: first = floor(o / (out / groups)) * (in / groups), c < in / groups.
/// Tensors: `<name>/weights` [kernel height, kernel width, in / groups, out] and, unless `biases` is nullopt,
/// `<name>/biases` [out]; none are wanted before a batch norm, which takes away any constant.
struct ConvolutionSpec {
  int num_outputs = 0;
  WindowSize kernel = {};  // 0 x 0: as large as the input, without padding, and the stride is 1
  int stride = 1;
  Padding padding = Padding::kSame;
  Activation activation = Activation::kNone;
  Initializer weights = {};
  std::optional<Initializer> biases = Initializer::constant(0);
  Regularized regularized = Regularized::kYes;
  int groups = 1;  // divides the numbers of channels and of outputs
};

/// out[o] = activation(b[o] + sum over i of in[i] * w[i, o]), the input flattened in the order height, width, channel.
/// Tensors: `<name>/weights` [in, out] and `<name>/biases` [out].
struct FullyConnectedSpec {
  int num_outputs = 0;  // 0: the number of classes; this is then the logits layer, or that of an AuxiliaryLoss
  Activation activation = Activation::kNone;
  Initializer weights = {};
  Initializer biases = {};
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
  int window = 0;  // 0: the whole image, and the stride is 1
  int stride = 1;
  Padding padding = Padding::kSame;
};

/// Local response normalization: out[y, x, c] = in[y, x, c] / (k + alpha * sum over d of in[y, x, d]^2)^beta, with d
/// from c - radius to c + radius where there is such a channel. The sum is not divided by the size of the window
/// (PyTorch and Caffe do divide: their alpha is 2 radius + 1 times this one). Krizhevsky et al., "ImageNet
/// Classification with Deep Convolutional Neural Networks", NIPS 2012, section 3.3.
struct LrnSpec {
  int radius = 0;
  float k = 1;
  float alpha = 0;
  float beta = 0.75f;
};

/// out[y, x, :] = the channels of all inputs at [y, x], in the order of LayerSpec::inputs. Inputs have equal heights
/// and widths. With AddSpec the only kind of layer that takes more than one input.
struct ConcatenationSpec {};

/// out = activation(in_0 + in_1 + ...), added up in the order of LayerSpec::inputs: two or more of equal shapes.
struct AddSpec {
  Activation activation = Activation::kNone;
};

/// out[y, x, c] = in[y, x, c] where there is such a channel, else 0: at least as many channels as the input has. With a
/// max pool of window 1 before it, the shortcut without parameters of He et al., "Deep Residual Learning for Image
/// Recognition", CVPR 2016, section 3.3, option A.
struct PadChannelsSpec {
  int num_outputs = 0;
};

/// In training, out = in / keep_prob for an element that is kept and 0 for one that is not; in evaluation, out = in. An
/// element is kept if its draw is less than keep_prob: draw_uniform of the stream {NetOptions::seed, TrainBatch::step,
/// global number of the worker, DrawPurpose::kDropout} at index first_dropout_draws (net_plan.h) of the layer + its
/// position in the worker's slice. Srivastava et al., "Dropout", JMLR 15 (2014), scaled in training as TensorFlow does.
struct DropoutSpec {
  float keep_prob = 0.5f;  // in (0, 1]; 1 keeps everything and draws nothing
};

/// out[n, y, x, c] = activation(gamma[c] (in[n, y, x, c] - mean[c]) / sqrt(variance[c] + epsilon) + beta[c]).
/// In training, mean and biased variance are those of channel c over the worker's slice, n, y and x; in evaluation, the
/// moving ones. Ioffe and Szegedy, "Batch Normalization", ICML 2015.
/// Tensors, never regularized: `<name>/beta` [c] and, unless `gamma` is nullopt (1 then), `<name>/gamma` [c].
/// State, kept by each worker for itself: `<name>/moving_mean` [c] (0 at first), `<name>/moving_variance` [c] (1) and
/// `<name>/moving_weight` [1] (0). A training pass replaces the weight w by w' = decay w + 1 - decay and moves mean and
/// variance by (1 - decay) / w' of the way to the batch's: their averages over passes with weights that fall off as
/// decay^k and sum to 1, so that the first pass replaces the initial values. A batch whose statistics are not finite
/// leaves the layer's state as it is.
struct BatchNormSpec {
  float decay = 0.9997f;   // in [0, 1)
  float epsilon = 0.001f;  // above 0
  Activation activation = Activation::kNone;
  std::optional<Initializer> gamma = std::nullopt;
  Initializer beta = Initializer::constant(0);
};

/// What a layer computes. A new kind is one more alternative here, one case in plan_net and one factory per backend.
using LayerOperation = std::variant<ConvolutionSpec, FullyConnectedSpec, MaxPoolSpec, AveragePoolSpec, LrnSpec,
                                    ConcatenationSpec, AddSpec, PadChannelsSpec, DropoutSpec, BatchNormSpec>;

/// The name by which a layer takes the net's input.
inline constexpr const char* kImageInput = "image";

/// One layer: a name, unique in its net, what it computes, and on what.
struct LayerSpec {
  std::string name;
  LayerOperation operation;
  std::vector<std::string> inputs = {};  // layers listed before this one, or kImageInput; empty: the one just before
                                         // (the image for the first layer)
};

/// A further classifier, whose loss is added in training, `weight` times: the softmax cross-entropy of the outputs of
/// `layer`, which no other layer takes. Its tensors do not count as logits. Layers that feed nothing else are left out
/// where the net predicts. Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, section 5.
struct AuxiliaryLoss {
  std::string layer;
  float weight = 1;
};

/// A net: layers in an order in which each comes after those it takes from. Each output but the last is taken by a
/// later layer or an auxiliary loss; the last layer gives the logits.
struct NetSpec {
  std::string name;
  std::vector<LayerSpec> layers;
  int smallest_side = 1;  // images need as many rows and columns, so that no pool is left without an output
  std::vector<AuxiliaryLoss> auxiliary_losses = {};
  float label_smoothing = 0;  // of all losses in training, in [0, 1): see LossTerm (softmax_cross_entropy.h)
};

/// Whether some layer drops out.
bool has_dropout(const NetSpec& spec);

}  // namespace terngrad
