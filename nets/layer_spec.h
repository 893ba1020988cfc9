// Layer specs: backend-independent description of a net.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace terngrad {

/// Padding of a window at image edges. As in TensorFlow, `kSame` gives ceil(size / stride) outputs, with the extra row
/// or column of an odd total at the bottom or right, and `kValid` pads nothing. `kHalf` gives as many outputs as kSame,
/// but pads floor((window - 1) / 2) rows at the top and columns at the left whatever the stride, and as many at the
/// bottom and right as windows reach: PyTorch's padding = (window - 1) / 2. `kTwo` pads 2 rows and columns on all
/// sides, as far as windows reach, with floor((size + 4 - window) / stride) + 1 outputs: PyTorch's padding = 2,
/// for convolutions only.
enum class Padding { kSame, kValid, kHalf, kTwo };

/// Rows and columns of a window (kernel).
struct WindowSize {
  int height = 0;
  int width = 0;

  constexpr WindowSize() = default;
  constexpr WindowSize(int side) : height(side), width(side) {}  // NOLINT(google-explicit-constructor): 3 is 3 x 3
  constexpr WindowSize(int rows, int columns) : height(rows), width(columns) {}
  constexpr std::int64_t num_elements() const { return std::int64_t{height} * width; }
  friend bool operator==(const WindowSize&, const WindowSize&) = default;
};

/// Activation function applied to each output of a layer.
enum class Activation { kNone, kRelu };

/// Initial values of a tensor: see initializer.h. The last three are for weights and depend on their fan-in and
/// fan-out: window height * width * the input or output channels of the weights' shape.
struct Initializer {
  enum class Kind {
    kConstant,         // value
    kTruncatedNormal,  // nominal standard deviation value, mean 0
    kUniform,          // from -value up to value
    kXavierUniform,    // kUniform with value * sqrt(6 / (fan_in + fan_out)); Glorot and Bengio, AISTATS 2010
    /// kTruncatedNormal with sqrt(1.3 value / fan_in): 1.3 makes up for the variance lost by truncation, value is 2 for
    /// ReLUs; He et al., ICCV 2015
    kScaledNormal,
    kFanInUniform,  // kUniform with sqrt(3 / fan_in), variance 1 / fan_in: Caffe's xavier
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

/// Weight decay of a layer's weights. Biases are never regularized.
enum class Regularized { kNo, kYes };

/// out[y, x, o] = activation(b[o] + sum over i, j, c of in[y stride + i - pad_top, x stride + j - pad_left, first + c]
/// * w[i, j, c, o]). With `groups` groups, channels and outputs are cut into as many equal runs, and an output depends
/// on the channels of its own run only: first = floor(o / (out / groups)) * (in / groups), c < in / groups.
/// Tensors: `<name>/weights` [kernel height, kernel width, in / groups, out] and, unless `biases` is nullopt,
/// `<name>/biases` [out]; omit them before a batch norm, which subtracts any constant.
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

/// out[y, x, c] = max over the window without padding. The gradient goes to the first of equal maxima.
struct MaxPoolSpec {
  int window = 0;
  int stride = 1;
  Padding padding = Padding::kSame;
};

/// out[y, x, c] = mean over the part of the window inside the image: padding is not counted, as in TensorFlow, unless
/// `counts_padding`: then it counts as zeros, PyTorch's default.
struct AveragePoolSpec {
  int window = 0;  // 0: the whole image, and the stride is 1
  int stride = 1;
  Padding padding = Padding::kSame;
  bool counts_padding = false;
};

/// Local response normalization: out[y, x, c] = in[y, x, c] / (k + alpha * sum over d of in[y, x, d]^2)^beta, with d
/// from c - radius to c + radius, within the channels. The sum is not divided by the size of the window
/// (PyTorch and Caffe do divide: their alpha is 2 radius + 1 times this one). Krizhevsky et al., "ImageNet
/// Classification with Deep Convolutional Neural Networks", NIPS 2012, section 3.3.
struct LrnSpec {
  int radius = 0;
  float k = 1;
  float alpha = 0;
  float beta = 0.75f;
};

/// out[y, x, :] = the channels of all inputs at [y, x], in the order of LayerSpec::inputs. Inputs have equal heights
/// and widths. Only this layer and AddSpec take several inputs.
struct ConcatenationSpec {};

/// out = activation(in_0 + in_1 + ...), summed in the order of LayerSpec::inputs: two or more of equal shapes.
struct AddSpec {
  Activation activation = Activation::kNone;
};

/// out[y, x, c] = in[y, x, c] for the input's channels, 0 for further ones. After a max pool of window 1 it makes the
/// parameter-free shortcut of He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 3.3,
/// option A.
struct PadChannelsSpec {
  int num_outputs = 0;
};

/// In training, out = in / keep_prob for kept elements and 0 for dropped ones; in evaluation, out = in. An
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
/// State, separate for each worker: `<name>/moving_mean` [c] (initially 0), `<name>/moving_variance` [c] (1) and
/// `<name>/moving_weight` [1] (0). A training pass replaces the weight w by w' = decay w + 1 - decay and moves mean and
/// variance by (1 - decay) / w' of the way to the batch's: their averages over passes with weights that fall off as
/// decay^k and sum to 1, so that the first pass replaces the initial values. A batch whose statistics are not finite
/// does not change the state.
struct BatchNormSpec {
  float decay = 0.9997f;   // in [0, 1)
  float epsilon = 0.001f;  // above 0
  Activation activation = Activation::kNone;
  std::optional<Initializer> gamma = std::nullopt;
  Initializer beta = Initializer::constant(0);
};

/// The operation of a layer. A new kind is one more alternative here, one case in plan_net and one factory per backend.
using LayerOperation = std::variant<ConvolutionSpec, FullyConnectedSpec, MaxPoolSpec, AveragePoolSpec, LrnSpec,
                                    ConcatenationSpec, AddSpec, PadChannelsSpec, DropoutSpec, BatchNormSpec>;

/// Input name that stands for the net's input.
inline constexpr const char* kImageInput = "image";

/// One layer: a name, unique in its net, an operation and its inputs.
struct LayerSpec {
  std::string name;
  LayerOperation operation;
  /// Names of earlier layers, or kImageInput. Empty: the previous layer, or the image for the first layer.
  std::vector<std::string> inputs = {};
};

/// An auxiliary classifier: `weight` times the softmax cross-entropy of the outputs of `layer`, which no other layer
/// takes, is added to the training loss. Its tensors do not count as logits. Inference skips layers that feed nothing
/// else. Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, section 5.
struct AuxiliaryLoss {
  std::string layer;
  float weight = 1;
};

/// A net: layers in topological order. Each output except the last is taken by a later layer or an auxiliary loss; the
/// last layer gives the logits.
struct NetSpec {
  std::string name;
  std::vector<LayerSpec> layers;
  int smallest_side = 1;  // minimum rows and columns of images, so that every pool has an output
  std::vector<AuxiliaryLoss> auxiliary_losses = {};
  float label_smoothing = 0;  // for all training losses, in [0, 1): see LossTerm (softmax_cross_entropy.h)
};

/// True if the net has a dropout layer.
bool has_dropout(const NetSpec& spec);

}  // namespace terngrad
