// Batch norm layer, with separate statistics for each worker's slice.
#include <algorithm>
#include <variant>

#include "kernels/runtime/buffer.h"
#include "nets/cuda/batch_norm.h"
#include "nets/cuda/layer.h"
#include "nets/cuda/moving_statistics.h"

namespace terngrad::cuda {
namespace {

class BatchNorm final : public Layer {
 public:
  BatchNorm(const LayerContext& context, const LayerPlan& plan, const NetPlan& net, const LayerOptions& options)
      : stream_(context.stream()),
        options_(options),
        spec_(std::get<BatchNormSpec>(plan.operation)),
        shape_{.rows = options.examples_per_worker * (plan.output.num_elements() / plan.output.channels),
               .channels = plan.output.channels,
               .epsilon = spec_.epsilon,
               .activation = spec_.activation},
        beta_offset_(net.layout.segment(plan.beta).offset),
        gamma_offset_(spec_.gamma ? net.layout.segment(plan.gamma).offset : 0),
        mean_offset_(net.state_layout.segment(plan.moving_mean).offset),
        variance_offset_(net.state_layout.segment(plan.moving_variance).offset),
        weight_offset_(net.state_layout.segment(plan.moving_weight).offset) {
    if (options.mode == Mode::kInference) return;
    statistics_ = Buffer<float>(std::int64_t{3} * options.num_workers * shape_.channels, stream_.device());
    context.workspace->reserve(batch_norm_scratch(shape_, options.num_workers) *
                               static_cast<std::int64_t>(sizeof(double)));
  }

  void forward(const Pass& pass, std::span<const float* const> inputs, float* output) override {
    if (options_.mode == Mode::kInference) {
      BatchNormShape all = shape_;
      all.rows *= options_.num_workers;
      batch_norm_inference(all, inputs[0], parameters(pass), pass.state + mean_offset_, pass.state + variance_offset_,
                           output, stream_);
      return;
    }
    const BatchStatistics batch = statistics();
    batch_norm_forward(shape_, options_.num_workers, inputs[0], parameters(pass), batch, output,
                       reinterpret_cast<double*>(pass.workspace), stream_);
    update_moving_statistics(spec_.decay, batch.mean, batch.variance, shape_.channels, options_.num_workers,
                             {.mean = pass.states.from(mean_offset_),
                              .variance = pass.states.from(variance_offset_),
                              .weight = pass.states.from(weight_offset_)},
                             stream_);
  }

  void backward(const Pass& pass, const BackwardArguments& arguments) override {
    batch_norm_backward(
        shape_, options_.num_workers, parameters(pass), statistics(),
        {.input = arguments.inputs[0],
         .output = arguments.output,
         .output_gradient = arguments.output_gradient,
         .input_gradient = arguments.input_gradients[0],
         .gamma_gradients = spec_.gamma ? arguments.gradients.from(gamma_offset_) : WorkerBuffers<float>{},
         .beta_gradients = arguments.gradients.from(beta_offset_)},
        reinterpret_cast<double*>(pass.workspace), stream_);
  }

 private:
  BatchNormParameters parameters(const Pass& pass) const {
    return {.gamma = spec_.gamma ? pass.parameters + gamma_offset_ : nullptr, .beta = pass.parameters + beta_offset_};
  }
  BatchStatistics statistics() {
    const std::int64_t count = std::int64_t{options_.num_workers} * shape_.channels;
    float* const first = statistics_.data();
    return {.mean = first, .variance = first + count, .inverse_deviation = first + 2 * count};
  }

  Stream stream_;
  LayerOptions options_;
  BatchNormSpec spec_;
  BatchNormShape shape_;
  std::int64_t beta_offset_;
  std::int64_t gamma_offset_;
  std::int64_t mean_offset_;
  std::int64_t variance_offset_;
  std::int64_t weight_offset_;
  Buffer<float> statistics_;  // [3, num_workers, channels], from forward to backward
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const LayerContext& context, const LayerPlan& plan, const NetPlan& net,
                                       const LayerOptions& options) {
  return std::make_unique<BatchNorm>(context, plan, net, options);
}

}  // namespace terngrad::cuda
