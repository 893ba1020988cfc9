#include "nets/cuda/cuda_net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "nets/models/lenet.h"
#include "tests/nets/auxiliary_net.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/cuda/net_on_device.h"
#include "tests/nets/residual_net.h"

namespace terngrad::cuda_cuda_net_test {
namespace {

using test::Doubles;
using test::NetOnDevice;
using testing::to_host;
class CudaNet : public testing::CudaTest {};

/// Layers that branched_net lacks; the rows of the shape are not a multiple of the vector size.
NetSpec other_layers() {
  const LrnSpec lrn{.radius = 2, .k = 1, .alpha = 0.5f, .beta = 0.75f};
  return {"other_layers",
          {{"conv1", ConvolutionSpec{.num_outputs = 7, .kernel = 3, .activation = Activation::kRelu}},
           {"pool1", MaxPoolSpec{.window = 3, .stride = 2}},
           {"lrn1", lrn},
           {"conv2", ConvolutionSpec{.num_outputs = 5, .kernel = 3, .activation = Activation::kRelu}},
           {"average", AveragePoolSpec{.window = 3, .stride = 1}},
           {"logits", FullyConnectedSpec{}}}};
}

void expect_near(std::span<const float> ours, const Doubles& reference, const Layout& layout, double tolerance) {
  for (const Segment& segment : layout.segments()) {
    const auto offset = static_cast<std::size_t>(segment.offset);
    const auto size = static_cast<std::size_t>(segment.num_elements);
    EXPECT_LE(test::relative_difference(ours.subspan(offset, size), std::span(reference).subspan(offset, size)),
              tolerance)
        << segment.name;
  }
}

/// Compares two training steps of three workers with the double-precision reference.
void expect_matches_reference(const NetSpec& spec, const ImageShape& image, MathMode math, double tolerance) {
  constexpr int kFirst = 2;
  NetOnDevice ours(spec, image, 5, 3, 2, kFirst, math);
  const NetPlan plan = plan_net(spec, image, 5);
  std::vector<Doubles> states(3, test::initial_state(plan));
  for (const std::uint64_t step : {3u, 4u}) {
    ours.run(step);
    const std::vector<WorkerLoss> losses = ours.host_losses();
    for (int w = 0; w < 3; ++w) {
      SCOPED_TRACE(::testing::Message() << "worker " << w << ", step " << step);
      const auto local = static_cast<std::size_t>(w);
      const test::ReferencePass pass{.seed = NetOnDevice::kSeed,
                                     .step = step,
                                     .worker = static_cast<std::uint32_t>(kFirst + w),
                                     .state = states[local]};
      const auto expected = test::reference_net(plan, test::widen(ours.host_parameters),
                                                test::widen(ours.images_of(kFirst + w, step)), ours.labels_of(), pass);
      EXPECT_NEAR(losses[local].entropy_loss, expected.loss, tolerance * expected.loss);
      EXPECT_NEAR(losses[local].auxiliary_loss, expected.auxiliary_loss, tolerance * expected.auxiliary_loss);
      expect_near(ours.gradient(w), expected.gradient, plan.layout, tolerance);
      expect_near(ours.state(w), expected.state, plan.state_layout, tolerance);
      states[local] = expected.state;
    }
  }
}

TEST_F(CudaNet, MatchesTheReference) {
  expect_matches_reference(test::branched_net(0.6f), {9, 8, 4}, MathMode::kFp32, 2e-5);
  expect_matches_reference(test::branched_net(1.0f), {7, 9, 4}, MathMode::kFp32, 2e-5);
  expect_matches_reference(other_layers(), {9, 7, 3}, MathMode::kFp32, 2e-5);
  expect_matches_reference(lenet(), {12, 12, 1}, MathMode::kFp32, 2e-5);
  expect_matches_reference(test::residual_net(), {7, 6, 3}, MathMode::kFp32, 2e-5);
  expect_matches_reference(test::rectangular_net(), {6, 9, 3}, MathMode::kFp32, 2e-5);
  expect_matches_reference(test::net_of_three_losses(0.6f), {7, 9, 3}, MathMode::kFp32, 2e-5);
}

TEST_F(CudaNet, MatchesTheReferenceInTf32) {
  expect_matches_reference(test::branched_net(0.6f), {9, 8, 4}, MathMode::kTf32, 2e-2);
}

/// One step of four workers, computed `workers` at a time.
TEST_F(CudaNet, AWorkersGradientDoesNotDependOnTheOthers) {
  for (const NetSpec& spec :
       {test::branched_net(0.6f), other_layers(), lenet(), test::residual_net(), test::net_of_three_losses(0.6f)}) {
    SCOPED_TRACE(spec.name);
    const ImageShape image{9, 8, 4};
    NetOnDevice together(spec, image, 5, 4, 3);
    for (const std::uint64_t step : {6u, 7u}) together.run(step);
    const Layout& layout = together.net->layout();
    for (const int workers : {1, 2}) {
      for (int first = 0; first < 4; first += workers) {
        NetOnDevice part(spec, image, 5, workers, 3, first);
        for (const std::uint64_t step : {6u, 7u}) part.run(step);
        for (int w = 0; w < workers; ++w) {
          EXPECT_EQ(test::tensor_bits(part.gradient(w), layout),
                    test::tensor_bits(together.gradient(first + w), layout))
              << "worker " << first + w << " among " << workers;
          EXPECT_EQ(test::tensor_bits(part.state(w), part.net->state_layout()),
                    test::tensor_bits(together.state(first + w), part.net->state_layout()));
          EXPECT_EQ(part.host_losses()[static_cast<std::size_t>(w)].entropy_loss,
                    together.host_losses()[static_cast<std::size_t>(first + w)].entropy_loss);
          EXPECT_EQ(part.host_losses()[static_cast<std::size_t>(w)].auxiliary_loss,
                    together.host_losses()[static_cast<std::size_t>(first + w)].auxiliary_loss);
        }
      }
    }
  }
}

TEST_F(CudaNet, AnnouncesTensorsWhileOthersAreStillToCome) {
  for (const NetSpec& spec : {test::branched_net(0.6f), other_layers(), lenet()}) {
    SCOPED_TRACE(spec.name);
    NetOnDevice ours(spec, {9, 8, 4}, 5, 3, 2);
    const Layout& layout = ours.net->layout();
    // Copies of all gradients in stream order, whenever a tensor is announced.
    std::vector<int> announced;
    std::vector<Buffer<float>> seen;
    ours.load_examples(3);
    ours.net->submit_gradients(ours.parameters.data(), ours.batch({.step = 3}), ours.worker_gradients(),
                               ours.losses.data(), [&](int segment) {
                                 announced.push_back(segment);
                                 seen.emplace_back(ours.gradients.num_elements(), ours.stream.device());
                                 copy<float>(ours.gradients.span(), seen.back().span(), ours.stream);
                               });
    EXPECT_EQ(announced, ours.net->gradient_order());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (int w = 0; w < 3; ++w) {
        const std::vector<float> now = ours.part(seen[i], w);
        const std::vector<float> final = ours.gradient(w);
        for (std::size_t j = 0; j < announced.size(); ++j) {
          const Segment& tensor = layout.segment(announced[j]);
          const auto at = [&](const std::vector<float>& flat) {
            return std::span(flat).subspan(static_cast<std::size_t>(tensor.offset),
                                           static_cast<std::size_t>(tensor.num_elements));
          };
          if (j <= i) {
            EXPECT_TRUE(std::ranges::equal(at(now), at(final))) << tensor.name << ", seen with " << announced[i];
          } else if (i == 0 && j + 1 == announced.size()) {
            // The backward pass announces the last layer before it reaches the first one.
            EXPECT_TRUE(std::ranges::all_of(at(now), [](float g) { return std::isnan(g); })) << tensor.name;
          }
        }
      }
    }
  }
}

TEST_F(CudaNet, WhatATensorsAnnouncementThrowsEndsThePass) {
  NetOnDevice ours(test::branched_net(0.6f), {9, 8, 4}, 5, 2, 2);
  ours.load_examples(3);
  EXPECT_THROW(ours.net->submit_gradients(ours.parameters.data(), ours.batch({.step = 3}), ours.worker_gradients(),
                                          ours.losses.data(), [](int) { throw DataError("no more"); }),
               DataError);
  ours.run(3);  // the net is still usable
  EXPECT_FALSE(std::isnan(ours.gradient(1)[0]));
}

TEST_F(CudaNet, ACapturedStepFollowsTheStepOnTheDevice) {
  NetOnDevice direct(test::branched_net(0.5f), {9, 8, 4}, 5, 2, 2);
  NetOnDevice replayed(test::branched_net(0.5f), {9, 8, 4}, 5, 2, 2);
  Buffer<std::uint64_t> step(1, replayed.stream.device());
  const auto submit = [&] {
    replayed.net->submit_gradients(replayed.parameters.data(), replayed.batch({.on_device = step.data()}),
                                   replayed.worker_gradients(), replayed.losses.data());
  };
  const std::array<std::uint64_t, 3> steps = {4, 9, (std::uint64_t{1} << 40) - 1};
  copy<std::uint64_t>(std::span(steps).first(1), step.span(), replayed.stream);
  replayed.load_examples(steps[0]);
  submit();
  const CapturedGraph graph(replayed.stream, submit);
  direct.run(steps[0]);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    direct.run(steps[i]);
    replayed.load_examples(steps[i]);
    copy<std::uint64_t>(std::span(steps).subspan(i, 1), step.span(), replayed.stream);
    graph.launch(replayed.stream);
    for (int w = 0; w < 2; ++w) {
      EXPECT_EQ(test::tensor_bits(replayed.gradient(w), direct.net->layout()),
                test::tensor_bits(direct.gradient(w), direct.net->layout()));
      EXPECT_EQ(test::tensor_bits(replayed.state(w), direct.net->state_layout()),
                test::tensor_bits(direct.state(w), direct.net->state_layout()));
    }
  }
}

TEST_F(CudaNet, PredictsAsTheReferenceAndEveryImageByItself) {
  constexpr int kImages = 261;  // a full chunk and a partial one
  NetOnDevice ours(test::branched_net(0.6f), {9, 8, 4}, 5, 1, 2);
  ours.run(3);  // changes the state
  const NetPlan plan = plan_net(ours.spec, ours.image, 5);
  const auto pixels = static_cast<std::size_t>(ours.image.num_elements());
  const auto host_images = test::random_floats(kImages * pixels, 8);
  const Buffer<float> images = testing::to_device<float>(host_images, ours.stream);
  Buffer<float> logits(kImages * 5, ours.stream.device());
  ours.net->predict(ours.parameters.span(), ours.states.span(), images.span(), kImages, logits.span());
  const auto found = to_host<float>(logits.span(), ours.stream);

  const auto state = ours.state(0);
  const test::ReferencePass pass{.is_training = false, .state = test::widen(state)};
  const auto labels = test::cyclic_labels(kImages, 5);
  const auto expected =
      test::reference_net(plan, test::widen(ours.host_parameters), test::widen(host_images), labels, pass);
  EXPECT_LE(test::relative_difference(found, expected.logits), 2e-5);

  Buffer<float> one(5, ours.stream.device());
  for (const int index : {0, 255, 256, 260}) {
    const auto at = static_cast<std::size_t>(index);
    ours.net->predict(ours.parameters.span(), ours.states.span(), images.span().subspan(at * pixels, pixels), 1,
                      one.span());
    const auto alone = to_host<float>(one.span(), ours.stream);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), found.begin() + index * 5)) << "image " << index;
  }
}

TEST_F(CudaNet, ServesTheCallsOfNet) {
  NetOnDevice ours(test::branched_net(0.6f), {9, 8, 4}, 5, 2, 2);
  NetOnDevice submitted(test::branched_net(0.6f), {9, 8, 4}, 5, 2, 2);
  submitted.run(3);
  ours.load_examples(3);
  const std::array<float*, 2> gradients = {ours.worker_gradients().of(0), ours.worker_gradients().of(1)};
  const std::array<float*, 2> states = {ours.worker_states().of(0), ours.worker_states().of(1)};
  std::array<WorkerLoss, 2> losses;
  std::vector<std::vector<int>> announced(2);
  const TrainBatch batch{.images = ours.images.span(), .labels = ours.labels.span(), .step = 3, .states = states};
  ours.net->compute_gradients(ours.parameters.span(), batch, gradients, losses, [&](int worker, int segment) {
    announced.at(static_cast<std::size_t>(worker)).push_back(segment);
  });
  EXPECT_EQ(announced[0], announced[1]);
  EXPECT_EQ(announced[0], ours.net->gradient_order());
  for (int w = 0; w < 2; ++w) {
    EXPECT_EQ(losses[static_cast<std::size_t>(w)].entropy_loss,
              submitted.host_losses()[static_cast<std::size_t>(w)].entropy_loss);
    EXPECT_EQ(test::tensor_bits(ours.gradient(w), ours.net->layout()),
              test::tensor_bits(submitted.gradient(w), ours.net->layout()));
  }
  const std::array<float*, 2> crossed = {gradients[1], gradients[1]};
  EXPECT_THROW(ours.net->compute_gradients(ours.parameters.span(), batch, crossed, losses), InvalidArgument);
  TrainBatch late = batch;
  late.step = std::uint64_t{1} << 40;
  EXPECT_THROW(ours.net->compute_gradients(ours.parameters.span(), late, gradients, losses), InvalidArgument);
}

TEST_F(CudaNet, RefusesImpossibleOptions) {
  const Stream stream(Device::cuda());
  EXPECT_THROW(make_device_net("lenet", {12, 12, 1}, 10, {.num_local_workers = 0}, MathMode::kFp32, stream),
               InvalidArgument);
  EXPECT_THROW(make_device_net("none", {12, 12, 1}, 10, {}, MathMode::kFp32, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_cuda_net_test
