#include "nets/pass_memory.h"

#include <algorithm>

namespace terngrad {
namespace {

bool wants_gradient(const NetPlan& plan, int layer) {
  return layer != kImageIndex && plan.layers[static_cast<std::size_t>(layer)].needs_gradient;
}

}  // namespace

InputGradient input_gradient_of(const NetPlan& plan, std::size_t index) {
  const bool is_wanted =
      std::ranges::any_of(plan.layers[index].inputs, [&](int input) { return wants_gradient(plan, input); });
  return is_wanted ? InputGradient::kWanted : InputGradient::kSkipped;
}

PassMemory::PassMemory(const NetPlan& plan, std::int64_t num_examples, Mode mode)
    : plan_(plan), num_examples_(num_examples), mode_(mode), routes_(plan.layers.size()), places_(plan.layers.size()) {
  place_activations();
  if (mode == Mode::kTraining) place_gradients();
}

PassMemory::PassMemory(const NetPlan& plan, std::int64_t num_examples, Mode mode, const Device& device)
    : PassMemory(plan, num_examples, mode) {
  activations_.allocate(device);
  gradients_.allocate(device);
  bind();
}

PassMemory::Elements PassMemory::elements(const NetPlan& plan, std::int64_t num_examples, Mode mode) {
  const PassMemory memory(plan, num_examples, mode);
  return {.activations = memory.activations_.num_elements(), .gradients = memory.gradients_.num_elements()};
}

void PassMemory::place_activations() {
  std::vector<int> readers_left(routes_.size(), 0);
  for (std::size_t l = 0; l < routes_.size(); ++l) {
    for (const int input : plan_.layers[l].inputs) {
      if (input != kImageIndex && !is_skipped(l)) ++readers_left[static_cast<std::size_t>(input)];
    }
  }
  for (std::size_t l = 0; l < routes_.size(); ++l) {
    if (is_skipped(l)) continue;
    routes_[l].output = activations_.acquire(num_elements(l));
    if (mode_ == Mode::kTraining) continue;  // backward needs all outputs
    for (const int input : plan_.layers[l].inputs) {
      if (input == kImageIndex) continue;
      const auto producer = static_cast<std::size_t>(input);
      if (--readers_left[producer] == 0) activations_.release(routes_[producer].output);
    }
  }
}

void PassMemory::place_gradients() {
  // The loss always writes the logits' gradient.
  routes_.back().output_gradient = gradients_.acquire(num_elements(routes_.size() - 1));
  for (const AuxiliaryLossPlan& loss : plan_.auxiliary_losses) {
    const auto l = static_cast<std::size_t>(loss.layer);
    routes_[l].output_gradient = gradients_.acquire(num_elements(l));
  }
  for (std::size_t l = routes_.size(); l-- > 0;) {
    if (!plan_.layers[l].needs_gradient) continue;
    std::vector<std::size_t> addends;
    for (const int input : plan_.layers[l].inputs) {
      GradientRoute route;
      if (wants_gradient(plan_, input)) {
        const auto producer = static_cast<std::size_t>(input);
        std::size_t& target = routes_[producer].output_gradient;
        if (target == kNoBuffer) {
          target = gradients_.acquire(num_elements(producer));
        } else {
          route.addend = gradients_.acquire(num_elements(producer));
          addends.push_back(route.addend);
        }
        route.target = target;
      }
      routes_[l].inputs.push_back(route);
    }
    for (const std::size_t addend : addends) gradients_.release(addend);
    gradients_.release(routes_[l].output_gradient);
  }
}

void PassMemory::bind() {
  for (std::size_t l = 0; l < routes_.size(); ++l) {
    if (is_skipped(l)) continue;
    Place& place = places_[l];
    place.output = activations_.data(routes_[l].output);
    place.num_outputs = num_elements(l);
    if (routes_[l].output_gradient != kNoBuffer) place.output_gradient = gradients_.data(routes_[l].output_gradient);
    for (const int input : plan_.layers[l].inputs) {
      place.inputs.push_back(input == kImageIndex ? nullptr
                                                  : activations_.data(routes_[static_cast<std::size_t>(input)].output));
    }
    for (std::size_t i = 0; i < routes_[l].inputs.size(); ++i) {
      const GradientRoute& route = routes_[l].inputs[i];
      const std::size_t written = route.addend == kNoBuffer ? route.target : route.addend;
      place.input_gradients.push_back(written == kNoBuffer ? nullptr : gradients_.data(written));
      if (route.addend == kNoBuffer) continue;
      const auto producer = static_cast<std::size_t>(plan_.layers[l].inputs[i]);
      place.sums.push_back({gradients_.data(route.target), gradients_.data(route.addend), num_elements(producer)});
    }
  }
}

}  // namespace terngrad
