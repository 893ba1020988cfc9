// Layer: one step of a net on the CPU, made for a fixed number of examples.
#pragma once

#include <memory>
#include <span>

#include "nets/cpu/dnnl_utils.h"
#include "nets/net_plan.h"

namespace terngrad::cpu {

/// What a layer is made for.
enum class Mode {
  kTraining,   // forward and backward
  kInference,  // forward only
};

/// Whether the layer below wants the gradient of its output; the first layer's input has no use for one.
enum class InputGradient { kSkipped, kWanted };

struct LayerOptions {
  int num_examples = 1;
  int num_threads = 1;  // those of LibraryThreads when the layer is made and run
  Mode mode = Mode::kTraining;
  InputGradient input_gradient = InputGradient::kWanted;
};

/// What a backward pass reads and writes. Activations are [num_examples, height, width, channels].
struct BackwardArguments {
  const float* input = nullptr;
  const float* output = nullptr;
  float* output_gradient = nullptr;  // in; may be overwritten
  float* input_gradient = nullptr;   // out; not written when it was not wanted
  float* gradient = nullptr;         // out: the flat gradient buffer, of which the layer's own tensors are written
};

/// A layer with its primitives, its copy of reordered parameters and whatever forward keeps for backward. One thread at
/// a time runs it; several slots hold a layer each. Results depend on the arguments, the options and the number of
/// threads that the layer was made and run with (LibraryThreads), on nothing else.
class Layer {
 public:
  virtual ~Layer() = default;
  /// Takes the parameters of the coming passes: the flat buffer must stay as it is until the last of them.
  virtual void set_parameters(const float* /*parameters*/) {}
  virtual void forward(const float* input, float* output) = 0;
  /// Only after `forward` with the same input. @throws std::logic_error in inference mode
  virtual void backward(const BackwardArguments& arguments) = 0;
};

/// Makes the layer that `plan` describes; `layout` says where its tensors lie in the flat buffers. `context` must
/// outlive the layer. @throws what throw_dnnl_error says
std::unique_ptr<Layer> make_layer(const DnnlContext& context, const LayerPlan& plan, const Layout& layout,
                                  const LayerOptions& options);

std::unique_ptr<Layer> make_convolution(const DnnlContext& context, const LayerPlan& plan, const Layout& layout,
                                        const LayerOptions& options);
std::unique_ptr<Layer> make_fully_connected(const DnnlContext& context, const LayerPlan& plan, const Layout& layout,
                                            const LayerOptions& options);
std::unique_ptr<Layer> make_max_pool(const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_average_pool(const DnnlContext& context, const LayerPlan& plan,
                                         const LayerOptions& options);
std::unique_ptr<Layer> make_lrn(const LayerPlan& plan, const LayerOptions& options);

}  // namespace terngrad::cpu
