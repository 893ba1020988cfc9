// Sums of several inputs, with optional ReLU. Memory-bound (three accesses per addition), so plain loops.
#include "kernels/runtime/parallel.h"
#include "nets/cpu/layer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <variant>

namespace terngrad::cpu {
namespace {

/// sum[i] = a[i] + b[i], with optional ReLU; `sum` may be `a`. Keeps NaNs.
template <bool kRectified>
void add_range(const float* a, const float* b, std::int64_t count, float* sum) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = a[i] + b[i];
    sum[i] = kRectified && value <= 0 ? 0.0f : value;
  }
}

class Add final : public Layer {
 public:
  Add(const LayerPlan& plan, const LayerOptions& options)
      : options_(options),
        is_rectified_(std::get<AddSpec>(plan.operation).activation == Activation::kRelu),
        num_elements_(options.num_examples * plan.output.num_elements()) {}

  void forward(std::span<const float* const> inputs, float* output) override {
    for_each_range([&](std::int64_t first, std::int64_t count) {
      const float* sum = inputs[0] + first;
      for (std::size_t i = 1; i < inputs.size(); ++i) {
        const bool is_last = i + 1 == inputs.size();
        const auto add = is_rectified_ && is_last ? add_range<true> : add_range<false>;
        add(sum, inputs[i] + first, count, output + first);
        sum = output + first;
      }
    });
  }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[add] backward in inference mode");
    for_each_range([&](std::int64_t first, std::int64_t count) {
      const float* const output = arguments.output + first;
      const float* const gradient = arguments.output_gradient + first;
      for (float* const whole : arguments.input_gradients) {
        if (whole == nullptr) continue;
        float* const target = whole + first;
        if (!is_rectified_) {
          std::copy_n(gradient, count, target);
          continue;
        }
        for (std::int64_t i = 0; i < count; ++i) target[i] = output[i] > 0 ? gradient[i] : 0.0f;
      }
    });
  }

 private:
  /// Calls body(first, count) for ranges that fit in the cache while several inputs are added.
  template <class Body>
  void for_each_range(const Body& body) const {
    constexpr std::int64_t kRange = 4096;
    const std::int64_t num_ranges = (num_elements_ + kRange - 1) / kRange;
    parallel_for(options_.num_threads, num_ranges, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t range = begin; range < end; ++range) {
        body(range * kRange, std::min(kRange, num_elements_ - range * kRange));
      }
    });
  }

  LayerOptions options_;
  bool is_rectified_;
  std::int64_t num_elements_;
};

}  // namespace

std::unique_ptr<Layer> make_add(const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<Add>(plan, options);
}

}  // namespace terngrad::cpu
