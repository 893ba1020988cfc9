// Appends channels of zeros.
#include "kernels/runtime/parallel.h"
#include "nets/cpu/layer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace terngrad::cpu {
namespace {

class PadChannels final : public Layer {
 public:
  PadChannels(const LayerPlan& plan, const LayerOptions& options)
      : options_(options),
        num_pixels_(std::int64_t{options.num_examples} * plan.output.height * plan.output.width),
        inputs_(plan.input.channels),
        outputs_(plan.output.channels) {}

  void forward(std::span<const float* const> inputs, float* output) override {
    for_each_pixel([&](std::int64_t pixel) {
      float* const rest = std::copy_n(inputs[0] + pixel * inputs_, inputs_, output + pixel * outputs_);
      std::fill_n(rest, outputs_ - inputs_, 0.0f);
    });
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[pad_channels] backward in inference mode");
    float* const gradient = arguments.input_gradients[0];
    if (gradient == nullptr) return;
    for_each_pixel([&](std::int64_t pixel) {
      std::copy_n(arguments.output_gradient + pixel * outputs_, inputs_, gradient + pixel * inputs_);
    });
  }

 private:
  template <class Body>
  void for_each_pixel(const Body& body) const {
    constexpr std::int64_t kGrain = 64;
    parallel_for(options_.num_threads, num_pixels_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pixel = begin; pixel < end; ++pixel) body(pixel);
    });
  }

  LayerOptions options_;
  std::int64_t num_pixels_;
  std::int64_t inputs_;   // input channels
  std::int64_t outputs_;  // output channels
};

}  // namespace

std::unique_ptr<Layer> make_pad_channels(const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<PadChannels>(plan, options);
}

}  // namespace terngrad::cpu
