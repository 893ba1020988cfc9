// Convolution layer with cuDNN. Activations are NHWC, as on the CPU and as tensor cores need them; filters, which the
// flat buffers store with outputs fastest, are transposed for each pass, as they are small compared to activations.
#include <algorithm>
#include <variant>

#include "kernels/runtime/buffer.h"
#include "nets/cuda/bias.h"
#include "nets/cuda/convolution_pass.h"
#include "nets/cuda/filter_order.h"
#include "nets/cuda/joint_slices.h"
#include "nets/cuda/layer.h"

namespace terngrad::cuda {
namespace {

class Convolution final : public Layer {
 public:
  Convolution(const LayerContext& context, const LayerPlan& plan, const Layout& layout, const LayerOptions& options)
      : stream_(context.stream()),
        fork_(context.fork),
        options_(options),
        input_elements_(plan.input.num_elements()),
        output_(plan.output),
        weights_offset_(layout.segment(plan.weights).offset),
        biases_offset_(plan.biases < 0 ? kNone : layout.segment(plan.biases).offset),
        activation_(std::get<ConvolutionSpec>(plan.operation).activation),
        applies_relu_gradient_(plan.applies_relu_gradient) {
    const auto& spec = std::get<ConvolutionSpec>(plan.operation);
    filter_rows_ = plan.window.num_elements() * (plan.input.channels / spec.groups);
    filters_ = Buffer<float>(filter_rows_ * output_.channels, stream_.device());
    const ConvolutionShape slice{.num_examples = options.examples_per_worker,
                                 .input = plan.input,
                                 .output = plan.output,
                                 .padding = plan.padding,
                                 .kernel = plan.window,
                                 .stride = spec.stride,
                                 .groups = spec.groups,
                                 .alignment = alignment()};
    forward_ = joint(context, ConvolutionDirection::kForward, slice, plan.name + " forward");
    std::int64_t bytes = forward_.workspace_bytes();
    if (options.mode == Mode::kTraining) {
      filter_gradient_ = std::make_unique<ConvolutionPass>(context.libraries, ConvolutionDirection::kFilterGradient,
                                                           slice, options.math);
      bytes = std::max(bytes, bias_scratch_bytes());
      if (options.input_gradient == InputGradient::kWanted) {
        input_gradient_ = joint(context, ConvolutionDirection::kInputGradient, slice, plan.name + " input gradient");
        bytes = std::max(bytes, input_gradient_.workspace_bytes());
      }
      // The branches have workspaces of their own, beside the stream's.
      branch_bytes_ = Workspace::aligned(filter_gradient_->workspace_bytes());
      filter_gradients_at_ = Workspace::aligned(bytes);
      branches_at_ = filter_gradients_at_ + Workspace::aligned(options.num_workers * filters_.num_elements() *
                                                               static_cast<std::int64_t>(sizeof(float)));
      bytes = branches_at_ + fork_->num_branches() * branch_bytes_;
    }
    context.workspace->reserve(bytes);
  }

  void forward(const Pass& pass, std::span<const float* const> inputs, float* output) override {
    to_filters(pass.parameters + weights_offset_, filters_.data(), filter_rows_, output_.channels, stream_);
    forward_.run(inputs[0], filters_.data(), output, pass.workspace, stream_);
    add_bias(output, biases_offset_ == kNone ? nullptr : pass.parameters + biases_offset_,
             options_.num_examples() * rows_per_example(), output_.channels, activation_, stream_);
  }

  void backward(const Pass& pass, const BackwardArguments& arguments) override {
    const std::int64_t examples = options_.examples_per_worker;
    if (applies_relu_gradient_) {
      relu_gradient(arguments.output_gradient, arguments.output, options_.num_examples() * output_.num_elements(),
                    stream_);
    }
    auto* const filter_gradients = reinterpret_cast<float*>(pass.workspace + filter_gradients_at_);
    fork_->begin();
    for (int worker = 0; worker < options_.num_workers; ++worker) {
      const int branch = worker % fork_->num_branches();
      filter_gradient_->run(arguments.inputs[0] + worker * examples * input_elements_,
                            arguments.output_gradient + worker * examples * output_.num_elements(),
                            filter_gradients + worker * filters_.num_elements(),
                            pass.workspace + branches_at_ + branch * branch_bytes_, fork_->branch(branch));
    }
    if (biases_offset_ != kNone) {
      bias_gradient(arguments.output_gradient, examples * rows_per_example(), output_.channels, options_.num_workers,
                    arguments.gradients.from(biases_offset_), reinterpret_cast<float*>(pass.workspace), stream_);
    }
    if (options_.input_gradient == InputGradient::kWanted) {
      input_gradient_.run(arguments.output_gradient, filters_.data(), arguments.input_gradients[0], pass.workspace,
                          stream_);
    }
    fork_->join();
    from_filters(filter_gradients, filter_rows_, output_.channels, options_.num_workers,
                 arguments.gradients.from(weights_offset_), stream_);
  }

 private:
  static constexpr std::int64_t kNone = -1;

  JointSlices<ConvolutionPass> joint(const LayerContext& context, ConvolutionDirection direction,
                                     const ConvolutionShape& shape, const std::string& name) {
    ConvolutionPass slice(context.libraries, direction, shape, options_.math);
    auto all = options_.num_workers == 1 ? nullptr : slice.with_examples(options_.num_examples());
    const std::int64_t inputs = shape.num_examples * shape.input.num_elements();
    const std::int64_t outputs = shape.num_examples * shape.output.num_elements();
    const bool is_forward = direction == ConvolutionDirection::kForward;
    return {std::move(slice),
            std::move(all),
            {.first = is_forward ? inputs : outputs,
             .second = filters_.num_elements(),
             .result = is_forward ? outputs : inputs},
            options_.num_workers,
            context,
            name};
  }
  /// Alignment of consecutive slices and filter gradients of any size. Used with one worker too, because it affects
  /// cuDNN's choice of an engine, which must not depend on the number of workers (contract B3).
  int alignment() const {
    return std::min({slice_alignment(options_.examples_per_worker * input_elements_),
                     slice_alignment(options_.examples_per_worker * output_.num_elements()),
                     slice_alignment(filters_.num_elements())});
  }
  std::int64_t rows_per_example() const { return std::int64_t{output_.height} * output_.width; }
  std::int64_t bias_scratch_bytes() const {
    return bias_gradient_scratch(options_.examples_per_worker * rows_per_example(), output_.channels,
                                 options_.num_workers) *
           static_cast<std::int64_t>(sizeof(float));
  }

  Stream stream_;
  std::shared_ptr<StreamFork> fork_;
  LayerOptions options_;
  std::int64_t input_elements_;
  ImageShape output_;
  std::int64_t weights_offset_;
  std::int64_t biases_offset_;
  Activation activation_;
  bool applies_relu_gradient_;
  std::int64_t filter_rows_ = 0;  // kernel * kernel * channels per group
  Buffer<float> filters_;         // transposed filters of the current pass
  JointSlices<ConvolutionPass> forward_;
  JointSlices<ConvolutionPass> input_gradient_;
  std::unique_ptr<ConvolutionPass> filter_gradient_;
  // Byte offsets in the workspace: the workers' filter gradients in cuDNN's order, and the branches' own workspaces.
  std::int64_t filter_gradients_at_ = 0;
  std::int64_t branches_at_ = 0;
  std::int64_t branch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Layer> make_convolution(const LayerContext& context, const LayerPlan& plan, const Layout& layout,
                                        const LayerOptions& options) {
  return std::make_unique<Convolution>(context, plan, layout, options);
}

}  // namespace terngrad::cuda
