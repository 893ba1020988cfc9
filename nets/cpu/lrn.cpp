// Local response normalization layer: threads process pixels independently.
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/parallel.h"
#include "nets/cpu/layer.h"
#include "nets/cpu/lrn_window.h"

#include <cstdint>
#include <span>
#include <stdexcept>
#include <variant>

namespace terngrad::cpu {
namespace {

class Lrn final : public Layer {
 public:
  Lrn(const LayerPlan& plan, const LayerOptions& options)
      : options_(options), num_pixels_(std::int64_t{options.num_examples} * plan.input.height * plan.input.width) {
    const auto& spec = std::get<LrnSpec>(plan.operation);
    window_ = {
        .channels = plan.input.channels, .radius = spec.radius, .k = spec.k, .alpha = spec.alpha, .beta = spec.beta};
    scratch_ = Buffer<float>(options.num_threads * lrn_scratch_elements(window_));
  }

  void forward(std::span<const float* const> inputs, float* output) override {
    for_each_part([&](std::int64_t first, std::int64_t count, float* scratch) {
      const std::int64_t at = first * window_.channels;
      lrn_forward(window_, inputs[0] + at, count, output + at, scratch);
    });
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[lrn] backward in inference mode");
    if (options_.input_gradient == InputGradient::kSkipped) return;
    for_each_part([&](std::int64_t first, std::int64_t count, float* scratch) {
      const std::int64_t at = first * window_.channels;
      lrn_backward(window_, arguments.inputs[0] + at, arguments.output_gradient + at, count,
                   arguments.input_gradients[0] + at, scratch);
    });
  }

 private:
  /// Calls body(first pixel, number of pixels, scratch) for one part of the pixels per thread.
  template <class Body>
  void for_each_part(const Body& body) {
    const std::int64_t num_parts = options_.num_threads;
    parallel_for(options_.num_threads, num_parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t first = num_pixels_ * part / num_parts;
        const std::int64_t last = num_pixels_ * (part + 1) / num_parts;
        body(first, last - first, scratch_.data() + part * lrn_scratch_elements(window_));
      }
    });
  }

  LayerOptions options_;
  std::int64_t num_pixels_;
  LrnWindow window_;
  Buffer<float> scratch_;
};

}  // namespace

std::unique_ptr<Layer> make_lrn(const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<Lrn>(plan, options);
}

}  // namespace terngrad::cpu
