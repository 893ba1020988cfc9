// Max and average pool layers, with kernels of our own that process images independently.
#include <type_traits>
#include <variant>

#include "nets/cuda/layer.h"
#include "nets/cuda/pool.h"

namespace terngrad::cuda {
namespace {

template <class Spec>
PoolWindow window_of(const LayerPlan& plan) {
  const auto& spec = std::get<Spec>(plan.operation);
  PoolWindow window{.input = plan.input,
                    .output = plan.output,
                    .padding = plan.padding,
                    .window = plan.window,
                    .stride = spec.stride,
                    .relu_gradient = plan.applies_relu_gradient};
  if constexpr (std::is_same_v<Spec, AveragePoolSpec>) window.counts_padding = spec.counts_padding;
  return window;
}

class MaxPool final : public Layer {
 public:
  MaxPool(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options)
      : stream_(context.stream()), window_(window_of<MaxPoolSpec>(plan)), num_examples_(options.num_examples()) {}
  void forward(const Pass&, std::span<const float* const> inputs, float* output) override {
    max_pool_forward(window_, num_examples_, inputs[0], output, stream_);
  }
  void backward(const Pass&, const BackwardArguments& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    max_pool_backward(window_, num_examples_, arguments.inputs[0], arguments.output, arguments.output_gradient,
                      arguments.input_gradients[0], stream_);
  }

 private:
  Stream stream_;
  PoolWindow window_;
  int num_examples_;
};

class AveragePool final : public Layer {
 public:
  AveragePool(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options)
      : stream_(context.stream()), window_(window_of<AveragePoolSpec>(plan)), num_examples_(options.num_examples()) {}
  void forward(const Pass&, std::span<const float* const> inputs, float* output) override {
    average_pool_forward(window_, num_examples_, inputs[0], output, stream_);
  }
  void backward(const Pass&, const BackwardArguments& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    average_pool_backward(window_, num_examples_, arguments.output_gradient, arguments.input_gradients[0], stream_);
  }

 private:
  Stream stream_;
  PoolWindow window_;
  int num_examples_;
};

}  // namespace

std::unique_ptr<Layer> make_max_pool(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<MaxPool>(context, plan, options);
}

std::unique_ptr<Layer> make_average_pool(const LayerContext& context, const LayerPlan& plan,
                                         const LayerOptions& options) {
  return std::make_unique<AveragePool>(context, plan, options);
}

}  // namespace terngrad::cuda
