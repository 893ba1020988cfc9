#include "nets/cpu/slice_runner.h"

#include <algorithm>
#include <utility>

#include "kernels/parallel.h"
#include "nets/softmax_cross_entropy.h"

namespace terngrad::cpu {
namespace {

void add_to(float* sum, const float* addend, std::int64_t count, int num_threads) {
  constexpr std::int64_t kGrain = 16384;
  parallel_for(num_threads, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sum[i] += addend[i];
  });
}

}  // namespace

SliceRunner::SliceRunner(const dnnl::engine& engine, const NetPlan& plan, int num_examples, int num_threads, Mode mode)
    : plan_(plan),
      num_examples_(num_examples),
      num_threads_(num_threads),
      context_{engine, dnnl::stream(engine), &scratchpad_} {
  const std::vector<std::int64_t> first_draws = first_dropout_draws(plan, num_examples);
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    const LayerPlan& layer = plan.layers[l];
    const bool is_wanted = std::ranges::any_of(layer.inputs, [this](int input) { return wants_gradient(input); });
    Step step;
    step.layer = make_layer(context_, layer, plan,
                            {.num_examples = num_examples,
                             .num_threads = num_threads,
                             .mode = mode,
                             .input_gradient = is_wanted ? InputGradient::kWanted : InputGradient::kSkipped,
                             .first_draw = first_draws[l]});
    steps_.push_back(std::move(step));
  }
  place_activations(mode);
  if (mode == Mode::kTraining) place_gradients();
  scratchpad_.allocate();
  activations_.allocate();
  gradients_.allocate();
  bind_memory();
}

bool SliceRunner::wants_gradient(int layer) const {
  return layer != kImageIndex && plan_.layers[static_cast<std::size_t>(layer)].needs_gradient;
}

void SliceRunner::place_activations(Mode mode) {
  std::vector<int> readers_left;
  for (std::size_t l = 0; l < steps_.size(); ++l) {
    steps_[l].output = activations_.acquire(num_elements(l));
    readers_left.push_back(plan_of(l).num_consumers);
    if (mode == Mode::kTraining) continue;  // backward reads them all
    for (const int input : plan_of(l).inputs) {
      if (input == kImageIndex) continue;
      const auto producer = static_cast<std::size_t>(input);
      if (--readers_left[producer] == 0) activations_.release(steps_[producer].output);
    }
  }
}

void SliceRunner::place_gradients() {
  // The loss writes the logits' gradient whether or not a layer has a use for it.
  steps_.back().output_gradient = gradients_.acquire(num_elements(steps_.size() - 1));
  for (std::size_t l = steps_.size(); l-- > 0;) {
    if (!plan_of(l).needs_gradient) continue;
    std::vector<std::size_t> addends;
    for (const int input : plan_of(l).inputs) {
      GradientRoute route;
      if (wants_gradient(input)) {
        const auto producer = static_cast<std::size_t>(input);
        std::size_t& target = steps_[producer].output_gradient;
        if (target == kNoBuffer) {
          target = gradients_.acquire(num_elements(producer));
        } else {
          route.addend = gradients_.acquire(num_elements(producer));
          addends.push_back(route.addend);
        }
        route.target = target;
      }
      steps_[l].routes.push_back(route);
    }
    for (const std::size_t addend : addends) gradients_.release(addend);
    gradients_.release(steps_[l].output_gradient);
  }
}

void SliceRunner::bind_memory() {
  for (std::size_t l = 0; l < steps_.size(); ++l) {
    Step& step = steps_[l];
    for (const int input : plan_of(l).inputs) {
      step.input_data.push_back(
          input == kImageIndex ? nullptr : activations_.data(steps_[static_cast<std::size_t>(input)].output));
    }
    for (const GradientRoute& route : step.routes) {
      const std::size_t written = route.addend == kNoBuffer ? route.target : route.addend;
      step.input_gradient_data.push_back(written == kNoBuffer ? nullptr : gradients_.data(written));
    }
  }
}

void SliceRunner::set_parameters(const float* parameters) {
  for (const Step& step : steps_) step.layer->set_parameters(parameters);
}

std::span<const float> SliceRunner::forward(const Pass& pass, const float* images) {
  for (std::size_t l = 0; l < steps_.size(); ++l) {
    Step& step = steps_[l];
    for (std::size_t i = 0; i < step.input_data.size(); ++i) {
      if (plan_of(l).inputs[i] == kImageIndex) step.input_data[i] = images;
    }
    step.layer->begin(pass);
    step.layer->forward(step.input_data, activations_.data(step.output));
  }
  return {activations_.data(steps_.back().output), static_cast<std::size_t>(num_elements(steps_.size() - 1))};
}

void SliceRunner::run_backward(std::size_t l, float* gradient) {
  Step& step = steps_[l];
  step.layer->backward({.inputs = step.input_data,
                        .output = activations_.data(step.output),
                        .output_gradient = gradients_.data(step.output_gradient),
                        .input_gradients = step.input_gradient_data,
                        .gradient = gradient});
  for (std::size_t i = 0; i < step.routes.size(); ++i) {
    const GradientRoute& route = step.routes[i];
    if (route.addend == kNoBuffer) continue;
    const auto producer = static_cast<std::size_t>(plan_of(l).inputs[i]);
    add_to(gradients_.data(route.target), gradients_.data(route.addend), num_elements(producer), num_threads_);
  }
}

WorkerLoss SliceRunner::compute_gradient(const Pass& pass, const float* images, std::span<const std::int32_t> labels,
                                         float* gradient, const std::function<void(int segment)>& on_segment_ready) {
  const std::span<const float> logits = forward(pass, images);
  const WorkerLoss loss = softmax_cross_entropy(logits, labels, plan_.num_classes,
                                                {gradients_.data(steps_.back().output_gradient), logits.size()});
  for (std::size_t l = steps_.size(); l-- > 0;) {
    if (!plan_of(l).needs_gradient) continue;
    run_backward(l, gradient);
    if (!on_segment_ready) continue;
    for (const int segment : plan_of(l).tensors) on_segment_ready(segment);
  }
  return loss;
}

}  // namespace terngrad::cpu
