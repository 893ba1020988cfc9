// Layer: concatenation of channels.
#include "nets/cuda/concatenation.h"
#include "nets/cuda/layer.h"

namespace terngrad::cuda {
namespace {

class Concatenation final : public Layer {
 public:
  Concatenation(const LayerContext& context, const LayerPlan& plan, const LayerOptions& options)
      : stream_(context.stream()),
        num_pixels_(std::int64_t{options.num_examples()} * plan.output.height * plan.output.width),
        num_channels_(plan.output.channels) {
    for (const ImageShape& shape : plan.input_shapes) input_channels_.push_back(shape.channels);
  }
  void forward(const Pass&, std::span<const float* const> inputs, float* output) override {
    int first = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      copy_channels({inputs[i], input_channels_[i], 0}, {output, num_channels_, first}, input_channels_[i], num_pixels_,
                    stream_);
      first += input_channels_[i];
    }
  }
  void backward(const Pass&, const BackwardArguments& arguments) override {
    int first = 0;
    for (std::size_t i = 0; i < input_channels_.size(); ++i) {
      if (arguments.input_gradients[i] != nullptr) {
        copy_channels({arguments.output_gradient, num_channels_, first},
                      {arguments.input_gradients[i], input_channels_[i], 0}, input_channels_[i], num_pixels_, stream_);
      }
      first += input_channels_[i];
    }
  }

 private:
  Stream stream_;
  std::int64_t num_pixels_;
  int num_channels_;
  std::vector<int> input_channels_;
};

}  // namespace

std::unique_ptr<Layer> make_concatenation(const LayerContext& context, const LayerPlan& plan,
                                          const LayerOptions& options) {
  return std::make_unique<Concatenation>(context, plan, options);
}

}  // namespace terngrad::cuda
