// Dropout layer: applies draws in training, copies otherwise.
#include "kernels/runtime/parallel.h"
#include "nets/cpu/dropout_mask.h"
#include "nets/cpu/layer.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <variant>

namespace terngrad::cpu {
namespace {

class Dropout final : public Layer {
 public:
  Dropout(const LayerPlan& plan, const LayerOptions& options)
      : options_(options),
        keep_prob_(std::get<DropoutSpec>(plan.operation).keep_prob),
        num_elements_(options.num_examples * plan.output.num_elements()) {}

  void begin(const Pass& pass) override {
    key_ = {.seed = pass.seed, .step = pass.step, .worker = pass.worker, .purpose = DrawPurpose::kDropout};
  }

  void forward(std::span<const float* const> inputs, float* output) override { apply(inputs[0], output); }

  void backward(const BackwardArguments& arguments) override {
    if (options_.mode == Mode::kInference) throw std::logic_error("[dropout] backward in inference mode");
    if (options_.input_gradient == InputGradient::kSkipped) return;
    apply(arguments.output_gradient, arguments.input_gradients[0]);
  }

 private:
  void apply(const float* input, float* output) const {
    const bool drops = options_.mode == Mode::kTraining && keep_prob_ < 1;
    constexpr std::int64_t kGrain = 4096;  // a multiple of a block of draws
    parallel_for(options_.num_threads, num_elements_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (drops) {
        apply_dropout(key_, static_cast<std::uint64_t>(options_.first_draw + begin), keep_prob_, input + begin,
                      end - begin, output + begin);
      } else {
        std::copy_n(input + begin, end - begin, output + begin);
      }
    });
  }

  LayerOptions options_;
  float keep_prob_;
  std::int64_t num_elements_;
  DrawKey key_;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(const LayerPlan& plan, const LayerOptions& options) {
  return std::make_unique<Dropout>(plan, options);
}

}  // namespace terngrad::cpu
