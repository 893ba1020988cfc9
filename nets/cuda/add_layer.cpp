// Layer: sum of several inputs.
#include <cstddef>
#include <variant>

#include "kernels/runtime/copy.h"
#include "nets/cuda/add.h"
#include "nets/cuda/layer.h"

namespace terngrad::cuda {
namespace {

class Add final : public Layer {
 public:
  Add(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options)
      : stream_(context.stream()),
        activation_(std::get<AddSpec>(plan.operation).activation),
        num_elements_(options.num_examples() * plan.output.num_elements()) {}
  void forward(const Pass&, std::span<const float* const> inputs, float* output) override {
    const float* sum = inputs[0];
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      add(sum, inputs[i], i + 1 == inputs.size() ? activation_ : Activation::kNone, num_elements_, output, stream_);
      sum = output;
    }
  }
  void backward(const Pass&, const BackwardArguments& arguments) override {
    const auto count = static_cast<std::size_t>(num_elements_);
    for (float* const gradient : arguments.input_gradients) {
      if (gradient == nullptr) continue;
      if (activation_ == Activation::kRelu) {
        relu_gradient(arguments.output, arguments.output_gradient, num_elements_, gradient, stream_);
      } else {
        copy<float>(std::span(arguments.output_gradient, count), std::span(gradient, count), stream_);
      }
    }
  }

 private:
  Stream stream_;
  Activation activation_;
  std::int64_t num_elements_;
};

}  // namespace

std::unique_ptr<Layer> make_add(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<Add>(context, plan, options);
}

}  // namespace terngrad::cuda
