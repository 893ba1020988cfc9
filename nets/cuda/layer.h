// Layer: one layer of a net on a GPU, for the slices of all local workers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/stream_fork.h"
#include "nets/cuda/libraries.h"
#include "nets/cuda/workspace.h"
#include "nets/device_net.h"
#include "nets/mode.h"
#include "nets/net_plan.h"

namespace terngrad::cuda {

/// Shared context for constructing the layers of one net.
struct LayerContext {
  Libraries libraries;
  Workspace* workspace;              // reserved by layers, allocated after the last one
  std::shared_ptr<StreamFork> fork;  // branches for workers' weight gradients; null without gradients
  std::vector<std::string>* notes;   // human-readable notes, see DeviceNet::notes
  const Stream& stream() const { return libraries.stream(); }
};

/// Options of a layer for all workers of a GPU.
struct LayerOptions {
  int num_workers = 1;
  int examples_per_worker = 1;
  Mode mode = Mode::kTraining;
  InputGradient input_gradient = InputGradient::kWanted;
  std::int64_t first_draw = 0;  // the layer's entry of first_dropout_draws
  MathMode math = MathMode::kFp32;
  int num_examples() const { return num_workers * examples_per_worker; }
};

/// Inputs of a pass of all slices besides the examples.
struct Pass {
  const float* parameters = nullptr;  // flat
  std::uint64_t seed = 0;             // draws depend on seed, step and worker
  DeviceStep step = {};
  std::uint32_t first_worker = 0;    // global number of the first local worker
  const float* state = nullptr;      // flat; read in inference mode
  WorkerBuffers<float> states = {};  // updated in training mode
  std::byte* workspace = nullptr;
};

/// Arguments of a backward pass. Activations are [num_examples, height, width, channels], slice after slice.
struct BackwardArguments {
  std::span<const float* const> inputs;
  const float* output = nullptr;
  float* output_gradient = nullptr;         // in; may be overwritten
  std::span<float* const> input_gradients;  // out, one for each input; nullptr if not wanted
  WorkerBuffers<float> gradients;           // out: flat, in which the layer writes its own tensors
};

/// A layer with its library plans and the data that forward keeps for backward. Calls only submit work to the stream
/// that it was made for. A worker's results depend on its slice, the pass and the options except num_workers, not on
/// other slices or their number (contract B3).
class Layer {
 public:
  virtual ~Layer() = default;
  virtual void forward(const Pass& pass, std::span<const float* const> inputs, float* output) = 0;
  /// Only after `forward` with the same inputs, in training mode. Branches of the stream are joined when it returns, so
  /// later work in the stream finds the gradients of the layer's tensors final.
  virtual void backward(const Pass& pass, const BackwardArguments& arguments) = 0;
};

/// Makes the layer of `plan`; `net` has the layouts of the flat buffers and must outlive the layer.
/// @throws NotSupported if a library has no deterministic algorithm for it
std::unique_ptr<Layer> make_layer(const LayerContext& context, const LayerPlan& plan, const NetPlan& net,
                                  const LayerOptions& options);

std::unique_ptr<Layer> make_add(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_average_pool(const LayerContext& context, const LayerPlan& plan,
                                         const LayerOptions& options);
std::unique_ptr<Layer> make_batch_norm(const LayerContext& context, const LayerPlan& plan, const NetPlan& net,
                                       const LayerOptions& options);
std::unique_ptr<Layer> make_concatenation(const LayerContext& context, const LayerPlan& plan,
                                          const LayerOptions& options);
std::unique_ptr<Layer> make_convolution(const LayerContext& context, const LayerPlan& plan, const Layout& layout,
                                        const LayerOptions& options);
std::unique_ptr<Layer> make_dropout(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_fully_connected(const LayerContext& context, const LayerPlan& plan, const Layout& layout,
                                            const LayerOptions& options);
std::unique_ptr<Layer> make_lrn(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_max_pool(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options);
std::unique_ptr<Layer> make_pad_channels(const LayerContext& context, const LayerPlan& plan,
                                         const LayerOptions& options);

}  // namespace terngrad::cuda
