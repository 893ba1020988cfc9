// Compares one CPU layer with the double-precision reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/runtime/parallel.h"
#include "nets/cpu/layer.h"
#include "tests/nets/reference_net.h"

namespace terngrad::test {

/// A plan with this one layer, whose outputs are the classes.
inline NetPlan plan_of_layer(const LayerSpec& spec, const ImageShape& image, int num_outputs) {
  return plan_net({"test", {spec}}, image, num_outputs);
}

/// Expects forward and backward to agree with the reference within `tolerance` (relative_difference).
inline void expect_layer_matches_reference(const NetPlan& plan, int num_examples, double tolerance) {
  const LibraryThreads threads(1);
  const LayerPlan& layer_plan = plan.layers[0];
  const auto examples = static_cast<std::size_t>(num_examples);
  const auto input = random_floats(examples * static_cast<std::size_t>(layer_plan.input.num_elements()), 1);
  const auto parameters = random_floats(static_cast<std::size_t>(plan.layout.flat_elements()), 2);
  const std::size_t num_outputs = examples * static_cast<std::size_t>(layer_plan.output.num_elements());
  auto output_gradient = random_floats(num_outputs, 3);

  const Doubles expected_output = reference_forward(layer_plan, plan.layout, widen(parameters), widen(input));
  Doubles expected_gradient(parameters.size(), 0.0);
  const Doubles expected_input_gradient =
      reference_backward(layer_plan, plan.layout, widen(parameters), widen(input), expected_output,
                         widen(output_gradient), expected_gradient);

  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::Scratchpad scratchpad;
  const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const auto layer = cpu::make_layer(context, layer_plan, plan, {.num_examples = num_examples});
  scratchpad.allocate();
  // NaN reveals elements that the layer does not write.
  std::vector<float> output(num_outputs, NAN);
  std::vector<float> input_gradient(input.size(), NAN);
  std::vector<float> gradient(parameters.size(), NAN);
  layer->set_parameters(parameters.data());
  const float* const inputs = input.data();
  float* const input_gradients = input_gradient.data();
  layer->forward({&inputs, 1}, output.data());
  layer->backward({.inputs = {&inputs, 1},
                   .output = output.data(),
                   .output_gradient = output_gradient.data(),
                   .input_gradients = {&input_gradients, 1},
                   .gradient = gradient.data()});

  EXPECT_LE(relative_difference(output, expected_output), tolerance) << "output";
  EXPECT_LE(relative_difference(input_gradient, expected_input_gradient), tolerance) << "input gradient";
  for (const Segment& segment : plan.layout.segments()) {
    const auto offset = static_cast<std::size_t>(segment.offset);
    const auto size = static_cast<std::size_t>(segment.num_elements);
    EXPECT_LE(relative_difference(std::span(gradient).subspan(offset, size),
                                  std::span(expected_gradient).subspan(offset, size)),
              tolerance)
        << segment.name;
    const std::int64_t next =
        &segment == &plan.layout.segments().back() ? plan.layout.flat_elements() : (&segment + 1)->offset;
    for (std::size_t i = offset + size; i < static_cast<std::size_t>(next); ++i) {
      EXPECT_TRUE(std::isnan(gradient[i])) << "padding after " << segment.name << " was written";
    }
  }
}

/// Expects the reference's input gradient of a layer without tensors to agree with central differences.
inline void expect_reference_agrees_with_central_differences(const NetPlan& plan) {
  constexpr double kStep = 1e-5;
  const LayerPlan& layer = plan.layers[0];
  const Doubles input = widen(random_floats(static_cast<std::size_t>(layer.input.num_elements()), 1));
  const Doubles weights = widen(random_floats(static_cast<std::size_t>(layer.output.num_elements()), 2));
  const auto weighted_output = [&](const Doubles& values) {
    const Doubles output = reference_forward(layer, plan.layout, {}, values);
    double sum = 0;
    for (std::size_t o = 0; o < output.size(); ++o) sum += weights[o] * output[o];
    return sum;
  };
  Doubles no_tensors;
  const Doubles gradient = reference_backward(layer, plan.layout, {}, input,
                                              reference_forward(layer, plan.layout, {}, input), weights, no_tensors);
  for (std::size_t i = 0; i < input.size(); ++i) {
    Doubles moved = input;
    moved[i] += kStep;
    const double above = weighted_output(moved);
    moved[i] -= 2 * kStep;
    EXPECT_NEAR((above - weighted_output(moved)) / (2 * kStep), gradient[i], 1e-8) << "input " << i;
  }
}

}  // namespace terngrad::test
