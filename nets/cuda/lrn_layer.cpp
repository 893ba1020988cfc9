// Local response normalization layer.
#include <variant>

#include "nets/cuda/layer.h"
#include "nets/cuda/lrn.h"

namespace terngrad::cuda {
namespace {

class Lrn final : public Layer {
 public:
  Lrn(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options)
      : stream_(context.stream()),
        num_pixels_(std::int64_t{options.num_examples()} * plan.output.height * plan.output.width) {
    const auto& spec = std::get<LrnSpec>(plan.operation);
    shape_ = {
        .channels = plan.output.channels, .radius = spec.radius, .k = spec.k, .alpha = spec.alpha, .beta = spec.beta};
  }
  void forward(const Pass&, std::span<const float* const> inputs, float* output) override {
    lrn_forward(shape_, num_pixels_, inputs[0], output, stream_);
  }
  void backward(const Pass&, const BackwardArguments& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    lrn_backward(shape_, num_pixels_, arguments.inputs[0], arguments.output_gradient, arguments.input_gradients[0],
                 stream_);
  }

 private:
  Stream stream_;
  std::int64_t num_pixels_;
  LrnShape shape_;
};

}  // namespace

std::unique_ptr<Layer> make_lrn(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<Lrn>(context, plan, options);
}

}  // namespace terngrad::cuda
