#include "nets/cpu/slice_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/parallel.h"
#include "nets/lenet.h"
#include "tests/nets/reference_net.h"

namespace terngrad {
namespace {

using test::Doubles;

/// A LeNet on a small image, with parameters large enough that no gradient is lost in rounding.
struct SmallLenet {
  static constexpr int kExamples = 3;
  NetPlan plan = plan_net(lenet(), {9, 6, 2}, 7);
  std::vector<float> parameters = test::random_floats(static_cast<std::size_t>(plan.layout.flat_elements()), 1);
  std::vector<float> images = test::random_floats(static_cast<std::size_t>(kExamples * plan.image.num_elements()), 2);
  std::vector<std::int32_t> labels = test::cyclic_labels(kExamples, plan.num_classes);

  SmallLenet() {
    for (float& parameter : parameters) parameter *= 0.1f;
  }
  test::ReferenceResult reference() const {
    return test::reference_net(plan, test::widen(parameters), test::widen(images), labels);
  }
};

TEST(ReferenceNet, AgreesWithCentralDifferences) {
  const SmallLenet net;
  EXPECT_LT(test::central_difference_error(net.plan, test::widen(net.parameters), test::widen(net.images), net.labels),
            1e-6);
}

TEST(SliceRunner, MatchesTheReferenceNet) {
  const SmallLenet net;
  const auto expected = net.reference();
  for (const int num_threads : {1, 2}) {
    const LibraryThreads threads(num_threads);
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    cpu::SliceRunner runner(engine, net.plan, SmallLenet::kExamples, num_threads, cpu::Mode::kTraining);
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

TEST(SliceRunner, InferenceGivesTheLogitsOfTheReference) {
  const SmallLenet net;
  const LibraryThreads threads(1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::SliceRunner runner(engine, net.plan, SmallLenet::kExamples, 1, cpu::Mode::kInference);
  runner.set_parameters(net.parameters.data());
  EXPECT_LE(test::relative_difference(runner.forward({}, net.images.data()), net.reference().logits), 1e-6);
}

TEST(SliceRunner, AnnouncesSegmentsFromTheLastLayerToTheFirst) {
  const SmallLenet net;
  const LibraryThreads threads(1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::SliceRunner runner(engine, net.plan, SmallLenet::kExamples, 1, cpu::Mode::kTraining);
  runner.set_parameters(net.parameters.data());
  std::vector<float> gradient(net.parameters.size(), NAN);
  std::vector<int> order;
  runner.compute_gradient({}, net.images.data(), net.labels, gradient.data(), [&](int segment) {
    order.push_back(segment);
    // Announced means final and readable.
    const Segment& tensor = net.plan.layout.segment(segment);
    for (std::int64_t i = 0; i < tensor.num_elements; ++i) {
      ASSERT_FALSE(std::isnan(gradient[static_cast<std::size_t>(tensor.offset + i)])) << tensor.name;
    }
  });
  EXPECT_EQ(order, (std::vector<int>{6, 7, 4, 5, 2, 3, 0, 1}));
}

}  // namespace
}  // namespace terngrad
