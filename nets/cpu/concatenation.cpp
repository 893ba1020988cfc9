// Concatenation along channels: copies in both directions.
#include "kernels/runtime/parallel.h"
#include "nets/cpu/layer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace terngrad::cpu {
namespace {

class Concatenation final : public Layer {
 public:
  Concatenation(const LayerPlan& plan, const LayerOptions& options)
      : options_(options),
        num_pixels_(std::int64_t{options.num_examples} * plan.output.height * plan.output.width),
        output_channels_(plan.output.channels) {
    for (const ImageShape& shape : plan.input_shapes) channels_.push_back(shape.channels);
  }

  void forward(std::span<const float* const> inputs, float* output) override {
    for_each_run([&](std::size_t input, std::int64_t source, std::int64_t target) {
      std::copy_n(inputs[input] + source, channels_[input], output + target);
    });
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[concatenation] backward in inference mode");
    for_each_run([&](std::size_t input, std::int64_t source, std::int64_t target) {
      float* const gradient = arguments.input_gradients[input];
      if (gradient != nullptr) std::copy_n(arguments.output_gradient + target, channels_[input], gradient + source);
    });
  }

 private:
  /// Calls body(input, first element in the input, first element in the output) for every input and pixel.
  template <class Body>
  void for_each_run(const Body& body) const {
    constexpr std::int64_t kGrain = 64;
    parallel_for(options_.num_threads, num_pixels_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pixel = begin; pixel < end; ++pixel) {
        std::int64_t target = pixel * output_channels_;
        for (std::size_t input = 0; input < channels_.size(); ++input) {
          body(input, pixel * channels_[input], target);
          target += channels_[input];
        }
      }
    });
  }

  LayerOptions options_;
  std::int64_t num_pixels_;
  std::int64_t output_channels_;
  std::vector<std::int64_t> channels_;  // per input
};

}  // namespace

std::unique_ptr<Layer> make_concatenation(const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<Concatenation>(plan, options);
}

}  // namespace terngrad::cpu
