#include "nets/cpu/slice_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/runtime/parallel.h"
#include "nets/models/lenet.h"
#include "tests/nets/auxiliary_net.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/cpu/net_comparison.h"
#include "tests/nets/reference_net.h"
#include "tests/support/sanitized.h"

namespace terngrad::cpu_slice_runner_test {
namespace {

using test::Doubles;

/// A net with all kinds of layers, each with an effect on the gradient.
NetSpec every_kind_of_layer() {
  const auto convolution = [](int num_outputs) {
    return ConvolutionSpec{
        .num_outputs = num_outputs, .kernel = 3, .activation = Activation::kRelu, .weights = {}, .biases = {}};
  };
  const LrnSpec lrn{.radius = 2, .k = 1, .alpha = 0.5f, .beta = 0.75f};
  return {"every_kind",
          {{"conv1", convolution(7)},
           {"pool1", MaxPoolSpec{.window = 3, .stride = 2}},
           {"lrn1", lrn},
           {"conv2", convolution(20)},
           {"lrn2", lrn},
           {"pool2", MaxPoolSpec{.window = 3, .stride = 2}},
           {"conv3", convolution(5)},
           {"average", AveragePoolSpec{.window = 3, .stride = 1}},
           {"logits", FullyConnectedSpec{.weights = {}, .biases = {}}}}};
}

/// A net for small images, with parameters so large that rounding hides no gradient.
struct SmallNet {
  static constexpr int kExamples = 3;
  NetPlan plan;
  std::vector<float> parameters = test::random_floats(static_cast<std::size_t>(plan.layout.flat_elements()), 1);
  std::vector<float> images = test::random_floats(static_cast<std::size_t>(kExamples * plan.image.num_elements()), 2);
  std::vector<std::int32_t> labels = test::cyclic_labels(kExamples, plan.num_classes);

  SmallNet(const NetSpec& spec, float largest_parameter) : plan(plan_net(spec, {9, 6, 2}, 7)) {
    for (float& parameter : parameters) parameter *= largest_parameter;
  }
  test::ReferenceResult reference() const {
    return test::reference_net(plan, test::widen(parameters), test::widen(images), labels);
  }
};

std::vector<SmallNet> small_nets() { return {{lenet(), 0.1f}, {every_kind_of_layer(), 0.5f}}; }

TEST(ReferenceNet, AgreesWithCentralDifferences) {
  if (testing::kIsThreadSanitized) GTEST_SKIP() << "loops of the tests' own, in one thread";
  for (const SmallNet& net : small_nets()) {
    SCOPED_TRACE(net.plan.name);
    EXPECT_LT(
        test::central_difference_error(net.plan, test::widen(net.parameters), test::widen(net.images), net.labels),
        1e-6);
  }
}

TEST(SliceRunner, AddsTheGradientsOfAuxiliaryLosses) {
  test::expect_net_matches_reference(test::net_of_three_losses(0.6f), {7, 9, 3}, 4, 3);
}

TEST(SliceRunner, MatchesTheReferenceNet) {
  for (const SmallNet& net : small_nets()) {
    SCOPED_TRACE(net.plan.name);
    const auto expected = net.reference();
    for (const int num_threads : {1, 2}) {
      const LibraryThreads threads(num_threads);
      const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
      cpu::SliceRunner runner(engine, net.plan, SmallNet::kExamples, num_threads, Mode::kTraining);
      runner.set_parameters(net.parameters.data());
      std::vector<float> gradient(net.parameters.size(), NAN);
      const WorkerLoss loss = runner.compute_gradient({}, net.images.data(), net.labels, gradient.data(), {});
      EXPECT_NEAR(loss.entropy_loss, expected.loss, 1e-6 * expected.loss);
      for (const Segment& segment : net.plan.layout.segments()) {
        const auto offset = static_cast<std::size_t>(segment.offset);
        const auto size = static_cast<std::size_t>(segment.num_elements);
        EXPECT_LE(test::relative_difference(std::span(gradient).subspan(offset, size),
                                            std::span(expected.gradient).subspan(offset, size)),
                  1e-5)
            << segment.name << " with " << num_threads << " threads";
      }
    }
  }
}

TEST(SliceRunner, MatchesTheReferenceOnAGraph) {
  for (const float keep_prob : {0.6f, 1.0f}) {
    test::expect_net_matches_reference(test::branched_net(keep_prob), {9, 8, 4}, 5, 4);
  }
}

TEST(SliceRunner, MatchesTheReferenceWhereNothingBelowNeedsAGradient) {
  const LayerSpec conv{"conv", ConvolutionSpec{.num_outputs = 3, .kernel = 3}};
  test::expect_net_matches_reference({"net",
                                      {{"pool", MaxPoolSpec{.window = 2, .stride = 2}},
                                       {"drop", DropoutSpec{.keep_prob = 0.5f}},
                                       conv,
                                       {"joined", ConcatenationSpec{}, {"pool", "conv", "drop"}},
                                       test::logits_layer()}},
                                     {8, 6, 2}, 4, 3);
}

TEST(SliceRunner, MatchesTheReferenceWhereAnOutputHasManyConsumers) {
  // Two outputs are alive during the whole backward pass; each gradient has four addends.
  const auto conv = [](const char* name, std::vector<std::string> inputs) {
    return LayerSpec{name, ConvolutionSpec{.num_outputs = 4, .kernel = 3, .activation = Activation::kRelu},
                     std::move(inputs)};
  };
  test::expect_net_matches_reference({"net",
                                      {conv("a", {"image"}),
                                       conv("b", {"a"}),
                                       conv("c", {"a"}),
                                       {"bc", ConcatenationSpec{}, {"b", "c", "a"}},
                                       conv("d", {"bc"}),
                                       {"pooled", MaxPoolSpec{.window = 3, .stride = 1}, {"b"}},
                                       {"all", ConcatenationSpec{}, {"pooled", "d", "a", "b", "bc"}},
                                       test::logits_layer()}},
                                     {6, 5, 2}, 4, 3);
}

TEST(SliceRunner, InferenceGivesTheLogitsOfTheReference) {
  for (const SmallNet& net : small_nets()) {
    SCOPED_TRACE(net.plan.name);
    const LibraryThreads threads(1);
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    cpu::SliceRunner runner(engine, net.plan, SmallNet::kExamples, 1, Mode::kInference);
    runner.set_parameters(net.parameters.data());
    EXPECT_LE(test::relative_difference(runner.forward({}, net.images.data()), net.reference().logits), 1e-6);
  }
}

TEST(SliceRunner, AnnouncesSegmentsFromTheLastLayerToTheFirst) {
  const SmallNet net(lenet(), 0.1f);
  const LibraryThreads threads(1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::SliceRunner runner(engine, net.plan, SmallNet::kExamples, 1, Mode::kTraining);
  runner.set_parameters(net.parameters.data());
  std::vector<float> gradient(net.parameters.size(), NAN);
  std::vector<int> order;
  runner.compute_gradient({}, net.images.data(), net.labels, gradient.data(), [&](int segment) {
    order.push_back(segment);
    // An announced tensor is final and readable.
    const Segment& tensor = net.plan.layout.segment(segment);
    for (std::int64_t i = 0; i < tensor.num_elements; ++i) {
      ASSERT_FALSE(std::isnan(gradient[static_cast<std::size_t>(tensor.offset + i)])) << tensor.name;
    }
  });
  EXPECT_EQ(order, (std::vector<int>{6, 7, 4, 5, 2, 3, 0, 1}));
}

}  // namespace
}  // namespace terngrad::cpu_slice_runner_test
