#include "trainers/gradient_transform.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/bits.h"
#include "tests/trainers/small_training.h"

namespace terngrad {
namespace {

using testing::bits_of;

TEST(WeightDecay, AddsToRegularizedTensorsOnly) {
  const testing::IdentityNet net(5);
  const auto length = static_cast<std::size_t>(net.layout().flat_elements());
  std::vector<float> parameters(length);
  for (std::size_t i = 0; i < length; ++i) parameters[i] = 0.37f * static_cast<float>(i) - 1.1f;
  std::vector<float> gradient(length, 0.25f);
  std::vector<float> expected = gradient;
  const Segment& weights = net.layout().segment(0);
  for (std::int64_t i = weights.offset; i < weights.offset + weights.num_elements; ++i) {
    const volatile float decay = 0.0005f * parameters[static_cast<std::size_t>(i)];
    expected[static_cast<std::size_t>(i)] += decay;
  }
  const auto transform = make_weight_decay(net, 0.0005);
  EXPECT_EQ(transform->name(), "weight_decay");
  Stream stream(Device::cpu(), 2);
  transform->apply(parameters, gradient, stream);
  // Biases and the padding between tensors are as before.
  EXPECT_EQ(bits_of(gradient), bits_of(expected));
}

TEST(WeightDecay, OfLenetTouchesWeightsAndNoBias) {
  const std::unique_ptr<Net> net = make_net("lenet", {16, 16, 1}, 10, {});
  const auto length = static_cast<std::size_t>(net->layout().flat_elements());
  const std::vector<float> parameters(length, 2.0f);
  std::vector<float> gradient(length, 0.0f);
  Stream stream(Device::cpu(), 1);
  make_weight_decay(*net, 0.5)->apply(parameters, gradient, stream);
  for (const Segment& segment : net->layout().segments()) {
    const float expected = segment.name.ends_with("/biases") ? 0.0f : 1.0f;
    for (std::int64_t i = 0; i < segment.num_elements; ++i) {
      ASSERT_EQ(gradient[static_cast<std::size_t>(segment.offset + i)], expected) << segment.name;
    }
  }
}

}  // namespace
}  // namespace terngrad
