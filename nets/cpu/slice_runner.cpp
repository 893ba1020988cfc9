#include "nets/cpu/slice_runner.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/parallel.h"
#include "nets/softmax_cross_entropy.h"

namespace terngrad::cpu {
namespace {

void add_to(float* sum, const float* addend, std::int64_t count, int num_threads) {
  constexpr std::int64_t kGrain = 16384;
  parallel_for(num_threads, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sum[i] += addend[i];
  });
}

/// The loss of one classifier, as softmax_cross_entropy returns it. @param own  empty: softmax cross-entropy
WorkerLoss loss_of(const Loss& own, std::span<const float> logits, std::span<const std::int32_t> labels,
                   int num_classes, std::span<float> gradient, const LossTerm& term) {
  if (!own) return softmax_cross_entropy(logits, labels, num_classes, gradient, term);
  const int num_correct = count_correct(logits, labels, num_classes);
  const double loss = own(logits, labels, num_classes, gradient);
  if (!term.is_auxiliary) return {.entropy_loss = loss, .num_correct = num_correct};
  for (float& element : gradient) element *= term.weight;
  return {.auxiliary_loss = double{term.weight} * loss};
}

}  // namespace

SliceRunner::SliceRunner(const dnnl::engine& engine, const NetPlan& plan, int num_examples, int num_threads, Mode mode,
                         Loss loss)
    : plan_(plan),
      loss_(std::move(loss)),
      num_threads_(num_threads),
      context_{engine, dnnl::stream(engine), &scratchpad_},
      memory_(plan, num_examples, mode, Device::cpu()) {
  const std::vector<std::int64_t> first_draws = first_dropout_draws(plan, num_examples);
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    if (mode == Mode::kInference && plan.layers[l].is_training_only) {
      layers_.push_back(nullptr);
      continue;
    }
    layers_.push_back(make_layer(context_, plan.layers[l], plan,
                                 {.num_examples = num_examples,
                                  .num_threads = num_threads,
                                  .mode = mode,
                                  .input_gradient = input_gradient_of(plan, l),
                                  .first_draw = first_draws[l]}));
  }
  scratchpad_.allocate();
}

void SliceRunner::set_parameters(const float* parameters) {
  for (const auto& layer : layers_) {
    if (layer != nullptr) layer->set_parameters(parameters);
  }
}

std::span<const float> SliceRunner::forward(const Pass& pass, const float* images, const OutputVisitor& visit) {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (layers_[l] == nullptr) continue;
    PassMemory::Place& place = memory_.place(l);
    for (std::size_t i = 0; i < place.inputs.size(); ++i) {
      if (plan_.layers[l].inputs[i] == kImageIndex) place.inputs[i] = images;
    }
    layers_[l]->begin(pass);
    layers_[l]->forward(place.inputs, place.output);
    if (visit) visit(plan_.layers[l].name, {place.output, static_cast<std::size_t>(place.num_outputs)});
  }
  const PassMemory::Place& last = memory_.place(layers_.size() - 1);
  return {last.output, static_cast<std::size_t>(last.num_outputs)};
}

void SliceRunner::run_backward(std::size_t l, float* gradient) {
  const PassMemory::Place& place = memory_.place(l);
  layers_[l]->backward({.inputs = place.inputs,
                        .output = place.output,
                        .output_gradient = place.output_gradient,
                        .input_gradients = place.input_gradients,
                        .gradient = gradient});
  for (const PassMemory::Sum& sum : place.sums) add_to(sum.sum, sum.addend, sum.num_elements, num_threads_);
}

WorkerLoss SliceRunner::compute_gradient(const Pass& pass, const float* images, std::span<const std::int32_t> labels,
                                         float* gradient, const std::function<void(int segment)>& on_segment_ready,
                                         std::span<float> logits_out) {
  const std::span<const float> logits = forward(pass, images);
  if (!logits_out.empty()) std::ranges::copy(logits, logits_out.begin());
  WorkerLoss loss = loss_of(loss_, logits, labels, plan_.num_classes,
                            {memory_.place(layers_.size() - 1).output_gradient, logits.size()},
                            {.label_smoothing = plan_.label_smoothing});
  for (const AuxiliaryLossPlan& auxiliary : plan_.auxiliary_losses) {
    const PassMemory::Place& place = memory_.place(static_cast<std::size_t>(auxiliary.layer));
    const LossTerm term{.label_smoothing = plan_.label_smoothing, .weight = auxiliary.weight, .is_auxiliary = true};
    loss.auxiliary_loss += loss_of(loss_, {place.output, logits.size()}, labels, plan_.num_classes,
                                   {place.output_gradient, logits.size()}, term)
                               .auxiliary_loss;
  }
  for (std::size_t l = layers_.size(); l-- > 0;) {
    if (!plan_.layers[l].needs_gradient) continue;
    run_backward(l, gradient);
    if (!on_segment_ready) continue;
    for (const int segment : plan_.layers[l].tensors) on_segment_ready(segment);
  }
  return loss;
}

}  // namespace terngrad::cpu
