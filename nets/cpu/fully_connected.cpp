// Fully connected layers with oneDNN, directly on the flat buffers: [in, out] weights are a plain format of the inner
// product, so parameters are read and gradients are written in place, without reordering megabytes.
#include "nets/cpu/layer.h"
#include "nets/cpu/relu.h"

#include <cstdint>
#include <stdexcept>
#include <variant>

namespace terngrad::cpu {
namespace {

/// Up to this number of examples the input's gradient is computed by the matmul primitive (0.32 against 0.50 ms for 8
/// examples and 2450 x 500 weights); above it the inner product's backward pass is faster (0.55 against 0.64 ms for
/// 64). The choice depends on the shape only, never on timing, so that results are reproducible.
constexpr int kMaxMatmulExamples = 24;

class FullyConnected final : public Layer {
 public:
  FullyConnected(const DnnlContext& context, const LayerPlan& plan, const Layout& layout, const LayerOptions& options)
      : options_(options),
        weights_offset_(layout.segment(plan.weights).offset),
        biases_offset_(layout.segment(plan.biases).offset),
        applies_relu_gradient_(plan.applies_relu_gradient) {
    const auto& spec = std::get<FullyConnectedSpec>(plan.operation);
    const std::int64_t num_inputs = plan.input.num_elements();
    const Shapes shapes{
        .input = matrix_desc(options.num_examples, num_inputs),
        .output = matrix_desc(options.num_examples, spec.num_outputs),
        .weights = {{spec.num_outputs, num_inputs}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::io},
        .transposed_weights = {{spec.num_outputs, num_inputs},
                               dnnl::memory::data_type::f32,
                               dnnl::memory::format_tag::ba},
        .biases = vector_desc(spec.num_outputs)};
    const auto forward = make_forward(context, plan.name, shapes, spec.activation == Activation::kRelu);
    if (options.mode == Mode::kInference) return;
    make_backward_weights(context, plan.name, shapes, forward);
    if (options.input_gradient == InputGradient::kWanted) make_backward_data(context, plan.name, shapes, forward);
    if (applies_relu_gradient_) relu_gradient_ = {context, plan.name, shapes.output};
  }

  void set_parameters(const float* parameters) override {
    forward_.bind(DNNL_ARG_WEIGHTS, parameters + weights_offset_);
    forward_.bind(DNNL_ARG_BIAS, parameters + biases_offset_);
    if (options_.mode == Mode::kInference || options_.input_gradient == InputGradient::kSkipped) return;
    backward_data_.bind(DNNL_ARG_WEIGHTS, parameters + weights_offset_);
  }

  void forward(std::span<const float* const> inputs, float* output) override {
    forward_.bind(DNNL_ARG_SRC, inputs[0]);
    forward_.bind(DNNL_ARG_DST, output);
    forward_.run();
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[fully_connected] backward in inference mode");
    if (applies_relu_gradient_) relu_gradient_.run(arguments.output, arguments.output_gradient);
    weights_gradient_.bind(DNNL_ARG_SRC, arguments.inputs[0]);
    weights_gradient_.bind(DNNL_ARG_DIFF_DST, arguments.output_gradient);
    weights_gradient_.bind(DNNL_ARG_DIFF_WEIGHTS, arguments.gradient + weights_offset_);
    weights_gradient_.bind(DNNL_ARG_DIFF_BIAS, arguments.gradient + biases_offset_);
    weights_gradient_.run();
    if (options_.input_gradient == InputGradient::kSkipped) return;
    backward_data_.bind(data_gradient_in_, arguments.output_gradient);
    backward_data_.bind(data_gradient_out_, arguments.input_gradients[0]);
    backward_data_.run();
  }

 private:
  struct Shapes {
    dnnl::memory::desc input, output, weights, transposed_weights, biases;
  };

  dnnl::inner_product_forward::primitive_desc make_forward(const DnnlContext& context, const std::string& name,
                                                           const Shapes& shapes, bool has_relu) {
    const auto kind =
        options_.mode == Mode::kInference ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    dnnl::inner_product_forward::primitive_desc desc({kind, shapes.input, shapes.weights, shapes.biases, shapes.output},
                                                     has_relu ? relu_attributes() : default_attributes(),
                                                     context.engine);
    forward_ = {context,
                name + " forward",
                dnnl::inner_product_forward(desc),
                desc.scratchpad_desc(),
                {{DNNL_ARG_SRC, shapes.input},
                 {DNNL_ARG_WEIGHTS, shapes.weights},
                 {DNNL_ARG_BIAS, shapes.biases},
                 {DNNL_ARG_DST, shapes.output}}};
    return desc;
  }

  void make_backward_weights(const DnnlContext& context, const std::string& name, const Shapes& shapes,
                             const dnnl::inner_product_forward::primitive_desc& forward) {
    const dnnl::inner_product_backward_weights::primitive_desc desc(
        {shapes.input, shapes.weights, shapes.biases, shapes.output}, default_attributes(), context.engine, forward);
    weights_gradient_ = {context,
                         name + " backward weights",
                         dnnl::inner_product_backward_weights(desc),
                         desc.scratchpad_desc(),
                         {{DNNL_ARG_SRC, shapes.input},
                          {DNNL_ARG_DIFF_DST, shapes.output},
                          {DNNL_ARG_DIFF_WEIGHTS, shapes.weights},
                          {DNNL_ARG_DIFF_BIAS, shapes.biases}}};
  }

  void make_backward_data(const DnnlContext& context, const std::string& name, const Shapes& shapes,
                          const dnnl::inner_product_forward::primitive_desc& forward) {
    if (options_.num_examples <= kMaxMatmulExamples) {
      const dnnl::matmul::primitive_desc desc({shapes.output, shapes.transposed_weights, shapes.input},
                                              default_attributes(), context.engine);
      data_gradient_in_ = DNNL_ARG_SRC;
      data_gradient_out_ = DNNL_ARG_DST;
      backward_data_ = {
          context,
          name + " backward data",
          dnnl::matmul(desc),
          desc.scratchpad_desc(),
          {{DNNL_ARG_SRC, shapes.output}, {DNNL_ARG_WEIGHTS, shapes.transposed_weights}, {DNNL_ARG_DST, shapes.input}}};
      return;
    }
    const dnnl::inner_product_backward_data::primitive_desc desc({shapes.input, shapes.weights, shapes.output},
                                                                 default_attributes(), context.engine, forward);
    backward_data_ = {
        context,
        name + " backward data",
        dnnl::inner_product_backward_data(desc),
        desc.scratchpad_desc(),
        {{DNNL_ARG_DIFF_DST, shapes.output}, {DNNL_ARG_WEIGHTS, shapes.weights}, {DNNL_ARG_DIFF_SRC, shapes.input}}};
  }

  LayerOptions options_;
  std::int64_t weights_offset_;
  std::int64_t biases_offset_;
  bool applies_relu_gradient_;
  Operation forward_;
  Operation weights_gradient_;
  Operation backward_data_;
  int data_gradient_in_ = DNNL_ARG_DIFF_DST;
  int data_gradient_out_ = DNNL_ARG_DIFF_SRC;
  ReluGradient relu_gradient_;
};

}  // namespace

std::unique_ptr<Layer> make_fully_connected(const DnnlContext& context, const LayerPlan& plan, const Layout& layout,
                                            const LayerOptions& options) {
  return std::make_unique<FullyConnected>(context, plan, layout, options);
}

}  // namespace terngrad::cpu
