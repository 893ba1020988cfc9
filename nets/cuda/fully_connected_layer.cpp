// Fully connected layer: three matrix products directly on the flat buffers, with weights [in, out].
#include <algorithm>
#include <variant>

#include "nets/cuda/bias.h"
#include "nets/cuda/joint_slices.h"
#include "nets/cuda/layer.h"
#include "nets/cuda/matrix_product.h"

namespace terngrad::cuda {
namespace {

class FullyConnected final : public Layer {
 public:
  FullyConnected(const LayerContext& context, const LayerPlan& plan, const Layout& layout, const LayerOptions& options)
      : stream_(context.stream()),
        fork_(context.fork),
        options_(options),
        num_inputs_(plan.input.num_elements()),
        num_outputs_(plan.output.channels),
        weights_offset_(layout.segment(plan.weights).offset),
        biases_offset_(layout.segment(plan.biases).offset),
        activation_(std::get<FullyConnectedSpec>(plan.operation).activation),
        applies_relu_gradient_(plan.applies_relu_gradient) {
    const std::int64_t examples = options.examples_per_worker;
    forward_ =
        joint_rows(context, {.rows = examples, .columns = num_outputs_, .inner = num_inputs_}, plan.name + " forward");
    std::int64_t bytes = forward_.workspace_bytes();
    if (options.mode == Mode::kTraining) {
      weight_gradient_ = std::make_unique<MatrixProduct>(context.libraries,
                                                         MatrixShape{.rows = num_inputs_,
                                                                     .columns = num_outputs_,
                                                                     .inner = examples,
                                                                     .transpose_a = true,
                                                                     .alignment = alignment()},
                                                         options.math);
      bytes = std::max(bytes, bias_scratch_bytes());
      if (options.input_gradient == InputGradient::kWanted) {
        input_gradient_ =
            joint_rows(context, {.rows = examples, .columns = num_inputs_, .inner = num_outputs_, .transpose_b = true},
                       plan.name + " input gradient");
        bytes = std::max(bytes, input_gradient_.workspace_bytes());
      }
      // The branches have workspaces of their own, beside the stream's.
      branch_bytes_ = Workspace::aligned(weight_gradient_->workspace_bytes());
      branches_at_ = Workspace::aligned(bytes);
      bytes = branches_at_ + fork_->num_branches() * branch_bytes_;
    }
    context.workspace->reserve(bytes);
  }

  void forward(const Pass& pass, std::span<const float* const> inputs, float* output) override {
    forward_.run(inputs[0], pass.parameters + weights_offset_, output, pass.workspace, stream_);
    add_bias(output, pass.parameters + biases_offset_, options_.num_examples(), num_outputs_, activation_, stream_);
  }

  void backward(const Pass& pass, const BackwardArguments& arguments) override {
    const std::int64_t examples = options_.examples_per_worker;
    if (applies_relu_gradient_) {
      relu_gradient(arguments.output_gradient, arguments.output, options_.num_examples() * std::int64_t{num_outputs_},
                    stream_);
    }
    fork_->begin();
    for (int worker = 0; worker < options_.num_workers; ++worker) {
      const int branch = worker % fork_->num_branches();
      weight_gradient_->run(arguments.inputs[0] + worker * examples * num_inputs_,
                            arguments.output_gradient + worker * examples * num_outputs_,
                            arguments.gradients.from(weights_offset_).of(worker),
                            pass.workspace + branches_at_ + branch * branch_bytes_, fork_->branch(branch));
    }
    bias_gradient(arguments.output_gradient, examples, num_outputs_, options_.num_workers,
                  arguments.gradients.from(biases_offset_), reinterpret_cast<float*>(pass.workspace), stream_);
    if (options_.input_gradient == InputGradient::kWanted) {
      input_gradient_.run(arguments.output_gradient, pass.parameters + weights_offset_, arguments.input_gradients[0],
                          pass.workspace, stream_);
    }
    fork_->join();
  }

 private:
  JointSlices<MatrixProduct> joint_rows(const LayerContext& context, MatrixShape shape, const std::string& name) {
    shape.alignment = alignment();
    MatrixProduct slice(context.libraries, shape, options_.math);
    auto joint = options_.num_workers == 1 ? nullptr : slice.with_rows(shape.rows * options_.num_workers);
    return {std::move(slice),
            std::move(joint),
            {.first = shape.rows * shape.inner,
             .second = shape.inner * shape.columns,
             .result = shape.rows * shape.columns},
            options_.num_workers,
            context,
            name};
  }
  /// Alignment of consecutive slices of any size. Used with one worker too, because it affects the choice of the
  /// algorithm, which must not depend on the number of workers (contract B3).
  int alignment() const {
    return std::min(slice_alignment(options_.examples_per_worker * num_inputs_),
                    slice_alignment(std::int64_t{options_.examples_per_worker} * num_outputs_));
  }
  std::int64_t bias_scratch_bytes() const {
    return bias_gradient_scratch(options_.examples_per_worker, num_outputs_, options_.num_workers) *
           static_cast<std::int64_t>(sizeof(float));
  }

  Stream stream_;
  std::shared_ptr<StreamFork> fork_;
  LayerOptions options_;
  std::int64_t num_inputs_;
  int num_outputs_;
  std::int64_t weights_offset_;
  std::int64_t biases_offset_;
  Activation activation_;
  bool applies_relu_gradient_;
  JointSlices<MatrixProduct> forward_;
  JointSlices<MatrixProduct> input_gradient_;
  std::unique_ptr<MatrixProduct> weight_gradient_;
  std::int64_t branches_at_ = 0;  // offset in bytes of the branches' workspaces
  std::int64_t branch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Layer> make_fully_connected(const LayerContext& context, const LayerPlan& plan, const Layout& layout,
                                            const LayerOptions& options) {
  return std::make_unique<FullyConnected>(context, plan, layout, options);
}

}  // namespace terngrad::cuda
