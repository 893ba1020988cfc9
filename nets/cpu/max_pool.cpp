// Max pooling layer: threads process images independently.
#include "kernels/runtime/parallel.h"
#include "nets/cpu/layer.h"
#include "nets/cpu/max_pool_window.h"

#include <cstdint>
#include <stdexcept>
#include <variant>

namespace terngrad::cpu {
namespace {

class MaxPool final : public Layer {
 public:
  MaxPool(const LayerPlan& plan, const LayerOptions& options) : options_(options) {
    const auto& spec = std::get<MaxPoolSpec>(plan.operation);
    window_ = {.input = plan.input,
               .output = plan.output,
               .padding = plan.padding,
               .window = spec.window,
               .stride = spec.stride,
               .relu_gradient = plan.applies_relu_gradient ? MaxPoolWindow::ReluGradient::kAtOutput
                                                           : MaxPoolWindow::ReluGradient::kThrough};
  }

  void forward(std::span<const float* const> inputs, float* output) override {
    for_each_image([&](std::int64_t n) {
      max_pool_forward(window_, inputs[0] + n * window_.input.num_elements(),
                       output + n * window_.output.num_elements());
    });
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[max_pool] backward in inference mode");
    if (options_.input_gradient == InputGradient::kSkipped) return;
    for_each_image([&](std::int64_t n) {
      const std::int64_t in = n * window_.input.num_elements();
      const std::int64_t out = n * window_.output.num_elements();
      max_pool_backward(window_, arguments.inputs[0] + in, arguments.output + out, arguments.output_gradient + out,
                        arguments.input_gradients[0] + in);
    });
  }

 private:
  template <class Body>
  void for_each_image(const Body& body) const {
    parallel_for(options_.num_threads, options_.num_examples, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) body(n);
    });
  }

  LayerOptions options_;
  MaxPoolWindow window_;
};

}  // namespace

std::unique_ptr<Layer> make_max_pool(const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<MaxPool>(plan, options);
}

}  // namespace terngrad::cpu
