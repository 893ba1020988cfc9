// Layer: appends channels of zeros.
#include <cstddef>

#include "kernels/runtime/copy.h"
#include "nets/cuda/concatenation.h"
#include "nets/cuda/layer.h"

namespace terngrad::cuda {
namespace {

class PadChannels final : public Layer {
 public:
  PadChannels(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options)
      : stream_(context.stream()),
        num_pixels_(std::int64_t{options.num_examples()} * plan.output.height * plan.output.width),
        inputs_(plan.input.channels),
        outputs_(plan.output.channels) {}
  void forward(const Pass&, std::span<const float* const> inputs, float* output) override {
    fill_zero(std::span(output, static_cast<std::size_t>(num_pixels_ * outputs_)), stream_);
    copy_channels({inputs[0], inputs_, 0}, {output, outputs_, 0}, inputs_, num_pixels_, stream_);
  }
  void backward(const Pass&, const BackwardArguments& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    copy_channels({arguments.output_gradient, outputs_, 0}, {arguments.input_gradients[0], inputs_, 0}, inputs_,
                  num_pixels_, stream_);
  }

 private:
  Stream stream_;
  std::int64_t num_pixels_;
  int inputs_;   // input channels
  int outputs_;  // output channels
};

}  // namespace

std::unique_ptr<Layer> make_pad_channels(const LayerContext& context, const LayerPlan& plan,
                                         const LayerOptions& options) {
  return std::make_unique<PadChannels>(context, plan, options);
}

}  // namespace terngrad::cuda
