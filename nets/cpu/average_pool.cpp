// Average pooling with oneDNN, in NHWC.
#include "nets/cpu/layer.h"

#include <span>
#include <stdexcept>
#include <variant>

namespace terngrad::cpu {
namespace {

using Dims = dnnl::memory::dims;

class AveragePool final : public Layer {
 public:
  AveragePool(const DnnlContext& context, const LayerPlan& plan, const LayerOptions& options) : options_(options) {
    const auto& spec = std::get<AveragePoolSpec>(plan.operation);
    const auto algorithm = spec.counts_padding ? dnnl::algorithm::pooling_avg_include_padding
                                               : dnnl::algorithm::pooling_avg_exclude_padding;
    const auto input = image_desc(options.num_examples, plan.input);
    const auto output = image_desc(options.num_examples, plan.output);
    const Dims strides = {spec.stride, spec.stride};
    const Dims window = {plan.window.height, plan.window.width};
    const Dims padding_before = {plan.padding.top, plan.padding.left};
    const Dims padding_after = {plan.padding.bottom, plan.padding.right};
    const auto kind =
        options.mode == Mode::kInference ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    const dnnl::pooling_forward::primitive_desc forward(
        {kind, algorithm, input, output, strides, window, padding_before, padding_after}, default_attributes(),
        context.engine);
    forward_ = {context,
                plan.name + " forward",
                dnnl::pooling_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}}};
    if (options.mode == Mode::kInference || options.input_gradient == InputGradient::kSkipped) return;
    const dnnl::pooling_backward::primitive_desc backward(
        {algorithm, input, output, strides, window, padding_before, padding_after}, default_attributes(),
        context.engine, forward);
    backward_ = {context,
                 plan.name + " backward",
                 dnnl::pooling_backward(backward),
                 backward.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_DST, output}, {DNNL_ARG_DIFF_SRC, input}}};
  }

  void forward(std::span<const float* const> inputs, float* output) override {
    forward_.bind(DNNL_ARG_SRC, inputs[0]);
    forward_.bind(DNNL_ARG_DST, output);
    forward_.run();
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[average_pool] backward in inference mode");
    if (options_.input_gradient == InputGradient::kSkipped) return;
    backward_.bind(DNNL_ARG_DIFF_DST, arguments.output_gradient);
    backward_.bind(DNNL_ARG_DIFF_SRC, arguments.input_gradients[0]);
    backward_.run();
  }

 private:
  LayerOptions options_;
  Operation forward_;
  Operation backward_;
};

}  // namespace

std::unique_ptr<Layer> make_average_pool(const DnnlContext& context, const LayerPlan& plan,
                                         const LayerOptions& options) {
  return std::make_unique<AveragePool>(context, plan, options);
}

}  // namespace terngrad::cpu
