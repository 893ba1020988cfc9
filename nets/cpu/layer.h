// Layer: one step of a net on the CPU, made for a fixed number of examples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "nets/cpu/dnnl_utils.h"
#include "nets/mode.h"
#include "nets/net_plan.h"

namespace terngrad::cpu {

/// Options of a layer for one worker.
struct LayerOptions {
  int num_examples = 1;
  int num_threads = 1;  // LibraryThreads when the layer is made and run
  Mode mode = Mode::kTraining;
  InputGradient input_gradient = InputGradient::kWanted;
  std::int64_t first_draw = 0;  // the layer's entry of first_dropout_draws
};

/// Inputs of one slice's pass besides its examples and the parameters.
struct Pass {
  std::uint64_t seed = 0;  // draws depend on seed, step and worker
  std::uint64_t step = 0;
  std::uint32_t worker = 0;         // global number
  const float* state = nullptr;     // flat; read in inference mode
  float* training_state = nullptr;  // flat; updated in training mode
};

/// Arguments of a backward pass. Activations are [num_examples, height, width, channels].
struct BackwardArguments {
  std::span<const float* const> inputs;
  const float* output = nullptr;
  float* output_gradient = nullptr;         // in; may be overwritten
  std::span<float* const> input_gradients;  // out, one for each input; nullptr if not wanted
  float* gradient = nullptr;                // out: flat gradient buffer, in which the layer writes its own tensors
};

/// A layer with its primitives, reordered parameters and the data that forward keeps for backward. Not thread-safe:
/// each slot has its own. Results depend only on the arguments, the pass, the options and the number of threads with
/// which the layer was made and run (LibraryThreads).
class Layer {
 public:
  virtual ~Layer() = default;
  /// Sets the flat parameters of the next passes, which must not change until the last of them.
  virtual void set_parameters(const float* /*parameters*/) {}
  /// Begins a pass, for the calls up to the next begin. Layers without draws and state ignore it.
  virtual void begin(const Pass& /*pass*/) {}
  virtual void forward(std::span<const float* const> inputs, float* output) = 0;
  /// Only after `forward` with the same inputs. @throws std::logic_error in inference mode
  virtual void backward(const BackwardArguments& arguments) = 0;
};

/// Makes the layer of `plan`; `net` has the layouts of the flat buffers. `context` must outlive the layer.
/// @throws as throw_dnnl_error
std::unique_ptr<Layer> make_layer(const DnnlContext& context, const LayerPlan& plan, const NetPlan& net,
                                  const LayerOptions& options);

std::unique_ptr<Layer> make_add(const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_batch_norm(const DnnlContext& context, const LayerPlan& plan, const NetPlan& net,
                                       const LayerOptions& options);
std::unique_ptr<Layer> make_concatenation(const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_convolution(const DnnlContext& context, const LayerPlan& plan, const Layout& layout,
                                        const LayerOptions& options);
std::unique_ptr<Layer> make_dropout(const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_fully_connected(const DnnlContext& context, const LayerPlan& plan, const Layout& layout,
                                            const LayerOptions& options);
std::unique_ptr<Layer> make_max_pool(const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_average_pool(const DnnlContext& context, const LayerPlan& plan,
                                         const LayerOptions& options);
std::unique_ptr<Layer> make_lrn(const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_pad_channels(const LayerPlan& plan, const LayerOptions& options);

}  // namespace terngrad::cpu
