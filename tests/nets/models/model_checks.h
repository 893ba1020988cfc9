// Checks shared by the tests of the nets in nets/models.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "nets/net_plan.h"
#include "tests/nets/reference_net.h"

namespace terngrad::test {

/// Numbers of tensors and elements of a net.
struct Totals {
  std::int64_t parameters = 0;
  int tensors = 0;
  std::int64_t regularized = 0;  // elements with weight decay
  std::int64_t state_elements = 0;
  int state_tensors = 0;
  friend bool operator==(const Totals&, const Totals&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Totals& t) {
  return out << t.parameters << " parameters in " << t.tensors << " tensors, " << t.regularized << " regularized, "
             << t.state_elements << " of state in " << t.state_tensors << " tensors";
}

inline Totals totals_of(const NetPlan& plan) {
  Totals totals{.parameters = plan.layout.num_elements(),
                .tensors = plan.layout.num_segments(),
                .state_elements = plan.state_layout.num_elements(),
                .state_tensors = plan.state_layout.num_segments()};
  for (int index = 0; index < plan.layout.num_segments(); ++index) {
    if (!plan.tensors[static_cast<std::size_t>(index)].is_regularized) continue;
    totals.regularized += plan.layout.segment(index).num_elements;
  }
  return totals;
}

/// Numbers of parameters and tensors of the inference layers.
inline std::pair<std::int64_t, int> totals_of_inference(const NetPlan& plan) {
  std::pair<std::int64_t, int> totals;
  for (const LayerPlan& layer : plan.layers) {
    if (layer.is_training_only) continue;
    for (const int index : layer.tensors) totals.first += plan.layout.segment(index).num_elements;
    totals.second += static_cast<int>(layer.tensors.size());
  }
  return totals;
}

inline const LayerPlan& layer_of(const NetPlan& plan, const std::string& name) {
  const auto layer = std::ranges::find(plan.layers, name, &LayerPlan::name);
  TERNGRAD_REQUIRE(layer != plan.layers.end(), "there is no layer '", name, "'");
  return *layer;
}

/// Initializer of the tensor `name`.
inline Initializer initializer_of(const NetPlan& plan, const std::string& name) {
  const auto segment = std::ranges::find(plan.layout.segments(), name, &Segment::name);
  TERNGRAD_REQUIRE(segment != plan.layout.segments().end(), "there is no tensor '", name, "'");
  return plan.tensors[static_cast<std::size_t>(segment - plan.layout.segments().begin())].initializer;
}

inline void expect_initializer(const NetPlan& plan, const std::string& name, Initializer::Kind kind, float value) {
  EXPECT_EQ(initializer_of(plan, name).kind, kind) << name;
  EXPECT_FLOAT_EQ(initializer_of(plan, name).value, value) << name;
}

/// Expects images with `side` rows and columns to be accepted, and smaller ones to be refused with a message that has
/// the net's name and the size.
inline void expect_smallest_side(const NetSpec& spec, int side) {
  EXPECT_EQ(plan_net(spec, {side, side, 3}, 10).layers.back().output, (ImageShape{1, 1, 10}));
  for (const ImageShape& image : {ImageShape{side - 1, side, 3}, ImageShape{side, side - 1, 3}}) {
    try {
      plan_net(spec, image, 10);
      ADD_FAILURE() << image.height << " x " << image.width << " was taken";
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()), "[" + spec.name + "] an image must have at least " + std::to_string(side) +
                                               " rows and columns, has " + std::to_string(image.height) + " x " +
                                               std::to_string(image.width));
    }
  }
  // The limit is tight: without it some layer has no output.
  NetSpec unchecked = spec;
  unchecked.smallest_side = 1;
  EXPECT_THROW(plan_net(unchecked, {side - 1, side - 1, 3}, 10), InvalidArgument);
}

/// Layers of `net` whose names start with `block`, applied to an image, and logits; with fewer channels for the slow
/// reference. Without average pooling: a batch norm would remove its constant gradient.
inline NetSpec block_net(const NetSpec& net, std::string_view block, int channels_divisor) {
  NetSpec cut{std::string(block), {}};
  for (LayerSpec layer : net.layers) {
    if (!layer.name.starts_with(block)) continue;
    for (std::string& input : layer.inputs) {
      if (!input.starts_with(block)) input = kImageInput;
    }
    if (auto* convolution = std::get_if<ConvolutionSpec>(&layer.operation))
      convolution->num_outputs /= channels_divisor;
    cut.layers.push_back(layer);
  }
  cut.layers.push_back({"logits", FullyConnectedSpec{}});
  return cut;
}

/// Losses of two examples if the weights of all logits are zero: ln(classes) times the sum of the loss weights.
inline WorkerLoss loss_without_logits(const NetSpec& spec, const ImageShape& image, int num_classes) {
  constexpr int kExamples = 2;
  const auto net = make_net(spec, image, num_classes, {.examples_per_worker = kExamples});
  auto parameters = zeros<float>(net->layout().flat_elements());
  auto gradients = zeros<float>(net->layout().flat_elements());
  auto state = zeros<float>(net->state_layout().flat_elements());
  net->initialize(1, parameters.span());
  net->initialize_state(state.span());
  for (const Segment& segment : net->layout().segments()) {
    // Logits of auxiliary classifiers are not marked as logits.
    if (segment.name.find("logits/") != std::string::npos)
      std::fill_n(parameters.data() + segment.offset, segment.num_elements, 0.0f);
  }
  const std::vector<float> images = random_floats(static_cast<std::size_t>(kExamples * image.num_elements()), 1);
  const std::vector<std::int32_t> labels = cyclic_labels(kExamples, num_classes);
  float* const gradient = gradients.data();
  float* const states = state.data();
  WorkerLoss loss;
  net->compute_gradients(parameters.span(), {.images = images, .labels = labels, .states = {&states, 1}},
                         {&gradient, 1}, {&loss, 1});
  return loss;
}

}  // namespace terngrad::test
