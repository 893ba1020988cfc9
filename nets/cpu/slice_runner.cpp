#include "nets/cpu/slice_runner.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "nets/softmax_cross_entropy.h"

namespace terngrad::cpu {

SliceRunner::SliceRunner(const dnnl::engine& engine, const NetPlan& plan, int num_examples, int num_threads, Mode mode)
    : plan_(plan), context_{engine, dnnl::stream(engine), &scratchpad_} {
  std::int64_t largest = 0;
  for (const LayerPlan& layer : plan.layers) {
    const auto input_gradient = layers_.empty() ? InputGradient::kSkipped : InputGradient::kWanted;
    layers_.push_back(make_layer(
        context_, layer, plan.layout,
        {.num_examples = num_examples, .num_threads = num_threads, .mode = mode, .input_gradient = input_gradient}));
    activations_.push_back(zeros<float>(num_examples * layer.output.num_elements()));
    largest = std::max(largest, activations_.back().num_elements());
  }
  if (mode == Mode::kTraining) {
    for (Buffer<float>& gradient : gradients_) gradient = zeros<float>(largest);
  }
  scratchpad_.allocate();
}

void SliceRunner::set_parameters(const float* parameters) {
  for (const auto& layer : layers_) layer->set_parameters(parameters);
}

std::span<const float> SliceRunner::forward(const float* images) {
  for (std::size_t l = 0; l < layers_.size(); ++l) layers_[l]->forward(input_of(l, images), activations_[l].data());
  return activations_.back().span();
}

WorkerLoss SliceRunner::compute_gradient(const float* images, std::span<const std::int32_t> labels, float* gradient,
                                         const std::function<void(int segment)>& on_segment_ready) {
  const std::span<const float> logits = forward(images);
  float* output_gradient = gradients_[0].data();
  float* input_gradient = gradients_[1].data();
  const WorkerLoss loss = softmax_cross_entropy(logits, labels, plan_.num_classes, {output_gradient, logits.size()});
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layers_[l]->backward({.input = input_of(l, images),
                          .output = activations_[l].data(),
                          .output_gradient = output_gradient,
                          .input_gradient = input_gradient,
                          .gradient = gradient});
    std::swap(output_gradient, input_gradient);
    for (const int segment : {plan_.layers[l].weights, plan_.layers[l].biases}) {
      if (segment >= 0 && on_segment_ready) on_segment_ready(segment);
    }
  }
  return loss;
}

}  // namespace terngrad::cpu
