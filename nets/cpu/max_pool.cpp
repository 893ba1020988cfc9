// Max pooling on oneDNN, in NHWC.
#include <stdexcept>

#include "nets/cpu/layer.h"
#include "nets/cpu/relu.h"

namespace terngrad::cpu {
namespace {

using Dims = dnnl::memory::dims;

class MaxPool final : public Layer {
 public:
  MaxPool(const DnnlContext& context, const LayerPlan& plan, const LayerOptions& options)
      : options_(options), applies_relu_gradient_(plan.applies_relu_gradient) {
    const auto& spec = std::get<MaxPoolSpec>(plan.operation);
    const auto input = image_desc(options.num_examples, plan.input);
    const auto output = image_desc(options.num_examples, plan.output);
    const Dims strides = {spec.stride, spec.stride};
    const Dims window = {spec.window, spec.window};
    const Dims padding_before = {plan.padding.top, plan.padding.left};
    const Dims padding_after = {plan.padding.bottom, plan.padding.right};
    constexpr auto kAlgorithm = dnnl::algorithm::pooling_max;
    const bool is_training = options.mode == Mode::kTraining;
    const dnnl::pooling_forward::primitive_desc forward(
        {is_training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference, kAlgorithm, input,
         output, strides, window, padding_before, padding_after},
        default_attributes(), context.engine);
    forward_ = {context,
                plan.name + " forward",
                dnnl::pooling_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}, {DNNL_ARG_WORKSPACE, forward.workspace_desc()}}};
    if (!is_training) return;
    workspace_ = make_buffer(forward.workspace_desc());
    forward_.bind(DNNL_ARG_WORKSPACE, workspace_.data());
    const dnnl::pooling_backward::primitive_desc backward(
        {kAlgorithm, input, output, strides, window, padding_before, padding_after}, default_attributes(),
        context.engine, forward);
    backward_ = {
        context,
        plan.name + " backward",
        dnnl::pooling_backward(backward),
        backward.scratchpad_desc(),
        {{DNNL_ARG_DIFF_DST, output}, {DNNL_ARG_DIFF_SRC, input}, {DNNL_ARG_WORKSPACE, forward.workspace_desc()}}};
    backward_.bind(DNNL_ARG_WORKSPACE, workspace_.data());
    if (applies_relu_gradient_) relu_gradient_ = {context, plan.name, output};
  }

  void forward(const float* input, float* output) override {
    forward_.bind(DNNL_ARG_SRC, input);
    forward_.bind(DNNL_ARG_DST, output);
    forward_.run();
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[max_pool] backward in inference mode");
    if (options_.input_gradient == InputGradient::kSkipped) return;
    if (applies_relu_gradient_) relu_gradient_.run(arguments.output, arguments.output_gradient);
    backward_.bind(DNNL_ARG_DIFF_DST, arguments.output_gradient);
    backward_.bind(DNNL_ARG_DIFF_SRC, arguments.input_gradient);
    backward_.run();
  }

 private:
  LayerOptions options_;
  bool applies_relu_gradient_;
  Operation forward_;
  Operation backward_;
  Buffer<std::byte> workspace_;  // which element of each window won
  ReluGradient relu_gradient_;
};

}  // namespace

std::unique_ptr<Layer> make_max_pool(const DnnlContext& context, const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<MaxPool>(context, plan, options);
}

}  // namespace terngrad::cpu
