// Batch norm with oneDNN, ReLU fused in both directions: the forward pass stores a mask of positive outputs.
#include "nets/cpu/layer.h"
#include "nets/cpu/moving_statistics.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

namespace terngrad::cpu {
namespace {

class BatchNorm final : public Layer {
 public:
  BatchNorm(const DnnlContext& context, const LayerPlan& plan, const NetPlan& net, const LayerOptions& options)
      : options_(options),
        spec_(std::get<BatchNormSpec>(plan.operation)),
        num_channels_(static_cast<std::size_t>(plan.output.channels)),
        beta_offset_(net.layout.segment(plan.beta).offset),
        gamma_offset_(spec_.gamma ? net.layout.segment(plan.gamma).offset : 0),
        mean_offset_(net.state_layout.segment(plan.moving_mean).offset),
        variance_offset_(net.state_layout.segment(plan.moving_variance).offset),
        weight_offset_(net.state_layout.segment(plan.moving_weight).offset) {
    const dnnl::memory::desc data = image_desc(options.num_examples, plan.output);
    const dnnl::memory::desc channels = vector_desc(plan.output.channels);
    const auto forward = make_forward(context, plan.name, data, channels);
    if (options.mode == Mode::kInference) return;
    mean_ = zeros<float>(plan.output.channels);
    variance_ = zeros<float>(plan.output.channels);
    forward_.bind(DNNL_ARG_MEAN, mean_.data());
    forward_.bind(DNNL_ARG_VARIANCE, variance_.data());
    make_backward(context, plan.name, data, channels, forward);
    if (options.input_gradient == InputGradient::kSkipped)
      unwanted_ = zeros<float>(options.num_examples * plan.output.num_elements());
  }

  void set_parameters(const float* parameters) override {
    bind_parameters(forward_, parameters);
    if (options_.mode == Mode::kTraining) bind_parameters(backward_, parameters);
  }

  void begin(const Pass& pass) override { pass_ = pass; }

  void forward(std::span<const float* const> inputs, float* output) override {
    if (options_.mode == Mode::kInference) {
      forward_.bind(DNNL_ARG_MEAN, pass_.state + mean_offset_);
      forward_.bind(DNNL_ARG_VARIANCE, pass_.state + variance_offset_);
    }
    forward_.bind(DNNL_ARG_SRC, inputs[0]);
    forward_.bind(DNNL_ARG_DST, output);
    forward_.run();
    if (options_.mode == Mode::kInference) return;
    update_moving_statistics(spec_.decay, mean_.span(), variance_.span(),
                             {.mean = {pass_.training_state + mean_offset_, num_channels_},
                              .variance = {pass_.training_state + variance_offset_, num_channels_},
                              .weight = pass_.training_state + weight_offset_});
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[batch_norm] backward in inference mode");
    const bool is_wanted = options_.input_gradient == InputGradient::kWanted;
    backward_.bind(DNNL_ARG_SRC, arguments.inputs[0]);
    backward_.bind(DNNL_ARG_DIFF_DST, arguments.output_gradient);
    backward_.bind(DNNL_ARG_DIFF_SRC, is_wanted ? arguments.input_gradients[0] : unwanted_.data());
    backward_.bind(DNNL_ARG_DIFF_SHIFT, arguments.gradient + beta_offset_);
    if (spec_.gamma) backward_.bind(DNNL_ARG_DIFF_SCALE, arguments.gradient + gamma_offset_);
    backward_.run();
  }

 private:
  using Arguments = std::vector<std::pair<int, dnnl::memory::desc>>;
  using Flags = dnnl::normalization_flags;

  bool has_relu() const { return spec_.activation == Activation::kRelu; }

  void bind_parameters(Operation& operation, const float* parameters) const {
    operation.bind(DNNL_ARG_SHIFT, parameters + beta_offset_);
    if (spec_.gamma) operation.bind(DNNL_ARG_SCALE, parameters + gamma_offset_);
  }

  Flags flags() const {
    Flags flags = Flags::use_shift;
    if (spec_.gamma) flags |= Flags::use_scale;
    if (has_relu()) flags |= Flags::fuse_norm_relu;
    if (options_.mode == Mode::kInference) flags |= Flags::use_global_stats;
    return flags;
  }

  dnnl::batch_normalization_forward::primitive_desc make_forward(const DnnlContext& context, const std::string& name,
                                                                 const dnnl::memory::desc& data,
                                                                 const dnnl::memory::desc& channels) {
    const bool is_training = options_.mode == Mode::kTraining;
    const auto kind = is_training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    dnnl::batch_normalization_forward::primitive_desc desc({kind, data, spec_.epsilon, flags()}, default_attributes(),
                                                           context.engine);
    Arguments arguments = {{DNNL_ARG_SRC, data},
                           {DNNL_ARG_DST, data},
                           {DNNL_ARG_MEAN, channels},
                           {DNNL_ARG_VARIANCE, channels},
                           {DNNL_ARG_SHIFT, channels}};
    if (spec_.gamma) arguments.emplace_back(DNNL_ARG_SCALE, channels);
    const bool has_workspace = is_training && has_relu();
    if (has_workspace) arguments.emplace_back(DNNL_ARG_WORKSPACE, desc.workspace_desc());
    forward_ = {context, name + " forward", dnnl::batch_normalization_forward(desc), desc.scratchpad_desc(), arguments};
    if (has_workspace) {
      is_positive_ = make_buffer(desc.workspace_desc());
      forward_.bind(DNNL_ARG_WORKSPACE, is_positive_.data());
    }
    return desc;
  }

  void make_backward(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& data,
                     const dnnl::memory::desc& channels,
                     const dnnl::batch_normalization_forward::primitive_desc& forward) {
    const dnnl::batch_normalization_backward::primitive_desc desc(
        {dnnl::prop_kind::backward, data, data, spec_.epsilon, flags()}, default_attributes(), context.engine, forward);
    Arguments arguments = {{DNNL_ARG_SRC, data},           {DNNL_ARG_DIFF_DST, data},     {DNNL_ARG_DIFF_SRC, data},
                           {DNNL_ARG_MEAN, channels},      {DNNL_ARG_VARIANCE, channels}, {DNNL_ARG_SHIFT, channels},
                           {DNNL_ARG_DIFF_SHIFT, channels}};
    if (spec_.gamma) {
      arguments.emplace_back(DNNL_ARG_SCALE, channels);
      arguments.emplace_back(DNNL_ARG_DIFF_SCALE, channels);
    }
    if (has_relu()) arguments.emplace_back(DNNL_ARG_WORKSPACE, forward.workspace_desc());
    backward_ = {context, name + " backward", dnnl::batch_normalization_backward(desc), desc.scratchpad_desc(),
                 arguments};
    backward_.bind(DNNL_ARG_MEAN, mean_.data());
    backward_.bind(DNNL_ARG_VARIANCE, variance_.data());
    if (has_relu()) backward_.bind(DNNL_ARG_WORKSPACE, is_positive_.data());
  }

  LayerOptions options_;
  BatchNormSpec spec_;
  std::size_t num_channels_;
  std::int64_t beta_offset_;
  std::int64_t gamma_offset_;
  std::int64_t mean_offset_;
  std::int64_t variance_offset_;
  std::int64_t weight_offset_;
  Pass pass_;
  Buffer<float> mean_;  // batch statistics, from forward to backward
  Buffer<float> variance_;
  Buffer<std::byte> is_positive_;  // mask of outputs in oneDNN's format; only with a ReLU
  Buffer<float> unwanted_;         // input gradient, which oneDNN always writes
  Operation forward_;
  Operation backward_;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const DnnlContext& context, const LayerPlan& plan, const NetPlan& net,
                                       const LayerOptions& options) {
  return std::make_unique<BatchNorm>(context, plan, net, options);
}

}  // namespace terngrad::cpu
