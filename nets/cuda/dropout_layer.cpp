// Dropout layer: the backward pass recomputes the draws.
#include <variant>

#include "kernels/runtime/copy.h"
#include "nets/cuda/dropout.h"
#include "nets/cuda/layer.h"

namespace terngrad::cuda {
namespace {

class Dropout final : public Layer {
 public:
  Dropout(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options)
      : stream_(context.stream()),
        options_(options),
        keep_prob_(std::get<DropoutSpec>(plan.operation).keep_prob),
        elements_per_worker_(options.examples_per_worker * plan.output.num_elements()) {}
  void forward(const Pass& pass, std::span<const float* const> inputs, float* output) override {
    apply(pass, inputs[0], output);
  }
  void backward(const Pass& pass, const BackwardArguments& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    apply(pass, arguments.output_gradient, arguments.input_gradients[0]);
  }

 private:
  void apply(const Pass& pass, const float* from, float* to) {
    if (options_.mode == Mode::kInference || keep_prob_ == 1.0f) {
      const auto count = static_cast<std::size_t>(options_.num_workers * elements_per_worker_);
      copy<float>(std::span(from, count), std::span(to, count), stream_);
      return;
    }
    apply_dropout({.seed = pass.seed,
                   .step = pass.step,
                   .first_worker = pass.first_worker,
                   .first_draw = static_cast<std::uint64_t>(options_.first_draw)},
                  keep_prob_, from, elements_per_worker_, options_.num_workers, to, stream_);
  }

  Stream stream_;
  LayerOptions options_;
  float keep_prob_;
  std::int64_t elements_per_worker_;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<Dropout>(context, plan, options);
}

}  // namespace terngrad::cuda
