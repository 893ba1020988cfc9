#include "nets/planned_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"

namespace terngrad::planned_net_test {
namespace {

using ::testing::HasSubstr;

NetPlan plan() { return plan_net(test::branched_net(0.5f), {9, 8, 4}, 5); }

template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(PlannedNet, InitialValuesFillTensorsAndZeroThePaddingBetweenThem) {
  const NetPlan net = plan();
  std::vector<float> parameters(static_cast<std::size_t>(net.layout.flat_elements()), NAN);
  initialize_parameters(net, 7, parameters);
  std::vector<bool> is_tensor(parameters.size());
  for (const Segment& segment : net.layout.segments()) {
    for (std::int64_t i = 0; i < segment.num_elements; ++i)
      is_tensor[static_cast<std::size_t>(segment.offset + i)] = true;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(std::isfinite(parameters[i]));
    EXPECT_TRUE(is_tensor[i] || parameters[i] == 0) << i;
  }
  std::vector<float> other(parameters.size(), NAN);
  initialize_parameters(net, 8, other);
  EXPECT_NE(other, parameters) << "the seed is ignored";

  std::vector<float> state(static_cast<std::size_t>(net.state_layout.flat_elements()), NAN);
  initialize_net_state(net, state);
  const Segment& variance = net.state_layout.segment(net.state_layout.find("stem_norm/moving_variance"));
  EXPECT_EQ(state[static_cast<std::size_t>(variance.offset)], 1);
  EXPECT_THROW(initialize_parameters(net, 7, std::span(parameters).subspan(1)), InvalidArgument);
  EXPECT_THROW(initialize_net_state(net, std::span(state).subspan(1)), InvalidArgument);
}

TEST(PlannedNet, WorkersMustBePossible) {
  EXPECT_NO_THROW(check_workers({}));
  EXPECT_THAT(refusal([] { check_workers({.num_local_workers = 0}); }), HasSubstr("num_local_workers"));
  EXPECT_THAT(refusal([] { check_workers({.examples_per_worker = -1}); }), HasSubstr("examples_per_worker"));
  EXPECT_THAT(refusal([] { check_workers({.first_local_worker = -1}); }), HasSubstr("first_local_worker"));
}

TEST(PlannedNet, ArgumentsAreNamedWhenTheyDoNotFit) {
  const NetPlan net = plan();
  const NetOptions options{.num_local_workers = 2, .examples_per_worker = 3};
  const std::vector<float> parameters(static_cast<std::size_t>(net.layout.flat_elements()));
  const std::vector<float> images(static_cast<std::size_t>(6 * net.image.num_elements()));
  const std::vector<std::int32_t> labels(6);
  const std::vector<float*> pointers(2);
  const std::vector<WorkerLoss> losses(2);
  const TrainBatch batch{.images = images, .labels = labels, .step = 0, .states = pointers};
  EXPECT_NO_THROW(check_gradients(net, options, parameters, batch, pointers, losses));
  const auto refused = [&](const auto& change) {
    TrainBatch changed = batch;
    change(changed);
    return refusal([&] { check_gradients(net, options, parameters, changed, pointers, losses); });
  };
  EXPECT_THAT(refused([](TrainBatch& b) { b.images = b.images.subspan(1); }), HasSubstr("images"));
  EXPECT_THAT(refused([](TrainBatch& b) { b.labels = b.labels.subspan(1); }), HasSubstr("labels"));
  EXPECT_THAT(refused([](TrainBatch& b) { b.states = {}; }), HasSubstr("states"));
  EXPECT_THAT(refused([](TrainBatch& b) { b.step = std::uint64_t{1} << 40; }), HasSubstr("step"));
  EXPECT_THAT(refusal([&] { check_gradients(net, options, parameters, batch, {}, losses); }), HasSubstr("gradients"));
  EXPECT_THAT(refusal([&] { check_gradients(net, options, parameters, batch, pointers, {}); }), HasSubstr("losses"));

  const std::vector<float> state(static_cast<std::size_t>(net.state_layout.flat_elements()));
  const std::vector<float> logits(30);
  EXPECT_NO_THROW(check_predict(net, parameters, state, images, 6, logits));
  EXPECT_THAT(refusal([&] { check_predict(net, parameters, {}, images, 6, logits); }), HasSubstr("state"));
  EXPECT_THAT(refusal([&] { check_predict(net, parameters, state, images, 5, logits); }), HasSubstr("images"));
  EXPECT_THAT(refusal([&] { check_predict(net, parameters, state, images, -1, logits); }), HasSubstr("num_examples"));
}

}  // namespace
}  // namespace terngrad::planned_net_test
