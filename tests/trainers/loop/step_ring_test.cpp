#include "trainers/loop/step_ring.h"

#include <gtest/gtest.h>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "tests/support/cuda_device.h"
#include "trainers/loop/cuda/step_ring.h"

namespace terngrad::step_ring_test {
namespace {

using testing::to_device;
using testing::to_host;
class CudaStepRing : public testing::CudaTest {};

TEST_F(CudaStepRing, AReplayedStepTakesItsOwnInputAndLeavesItsOwnRecord) {
  Stream stream(Device::cuda());
  StepRing ring(4, 2, stream);
  const std::vector<WorkerLoss> losses = {{0.5, 3}, {0.25, 2}};
  const Buffer<WorkerLoss> on_device = to_device<WorkerLoss>(losses, stream);
  const std::vector<std::uint32_t> no = {0};
  const Buffer<std::uint32_t> skip = to_device<std::uint32_t>(no, stream);
  // Simulates a step: the weight moves by the step's rate.
  const std::vector<float> zero = {0, 0};
  Buffer<float> weight = to_device<float>(zero, stream);
  const std::vector<float> one = {1, 1};
  const Buffer<float> gradient = to_device<float>(one, stream);
  const auto submit = [&] {
    ring.submit_begin();
    update_gd(weight.span(), gradient.span(), 0, stream, ring.update_scalars(skip.data()));
    ring.submit_end(on_device.data(), skip.data());
  };
  // Steps 9 to 13 in bursts of two and three, around the end of the ring.
  const std::vector<cuda::StepInput> first = {{.rates = {1}, .ema_decay = 0}, {.rates = {2}, .ema_decay = 0}};
  ring.prepare(9, first);
  submit();
  const CapturedGraph graph(stream, submit);
  graph.launch(stream);
  std::vector<StepOutcome> outcomes = ring.outcomes(9, 2);
  EXPECT_EQ(to_host<float>(weight.span(), stream)[0], -3.0f);
  const std::vector<cuda::StepInput> second = {{.rates = {8}}, {.rates = {16}}, {.rates = {32}}};
  ring.prepare(11, second);
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  const std::vector<StepOutcome> later = ring.outcomes(11, 3);
  outcomes.insert(outcomes.end(), later.begin(), later.end());
  EXPECT_EQ(to_host<float>(weight.span(), stream)[0], -59.0f);
  for (const StepOutcome& outcome : outcomes) {
    ASSERT_EQ(outcome.losses.size(), 2u);
    EXPECT_EQ(outcome.losses[0].entropy_loss, 0.5);
    EXPECT_EQ(outcome.losses[1].entropy_loss, 0.25);
    EXPECT_EQ(outcome.losses[0].num_correct, 3);
    EXPECT_EQ(outcome.losses[1].num_correct, 2);
    EXPECT_FALSE(outcome.skipped);
    EXPECT_EQ(outcome.counts.zeroed_elements, 0);
  }
}

TEST_F(CudaStepRing, RecordsMarksAndCountersOfTheStepOnly) {
  Stream stream(Device::cuda());
  StepRing ring(2, 1, stream);
  const std::vector<WorkerLoss> losses = {{1.0, 1}};
  const Buffer<WorkerLoss> on_device = to_device<WorkerLoss>(losses, stream);
  const std::vector<std::uint32_t> marks = {0, 7};
  const Buffer<std::uint32_t> skip = to_device<std::uint32_t>(marks, stream);
  const std::vector<TransformCounts> counted = {{.zeroed_elements = 5, .clipped_gradients = 2}};
  ring.prepare(0, std::vector<cuda::StepInput>(2));
  ring.submit_begin();
  copy<TransformCounts>(counted, std::span(ring.counts(), 1), stream);
  ring.submit_end(on_device.data(), skip.data() + 1);
  ring.submit_begin();
  ring.submit_end(on_device.data(), skip.data());
  const auto outcomes = ring.outcomes(0, 2);
  EXPECT_TRUE(outcomes[0].skipped);
  EXPECT_EQ(outcomes[0].counts.zeroed_elements, 5);
  EXPECT_EQ(outcomes[0].counts.clipped_gradients, 2);
  EXPECT_FALSE(outcomes[1].skipped);
  EXPECT_EQ(outcomes[1].counts.zeroed_elements, 0);
  EXPECT_THROW(ring.prepare(0, std::vector<cuda::StepInput>(3)), InvalidArgument);
}

TEST_F(CudaStepRing, KeepsTheLossesOfMoreWorkersThanABlockHasThreads) {
  Stream stream(Device::cuda());
  std::vector<WorkerLoss> losses;
  for (int worker = 0; worker < 71; ++worker) losses.push_back({0.5 * worker, worker});
  const Buffer<WorkerLoss> on_device = to_device<WorkerLoss>(losses, stream);
  const std::vector<std::uint32_t> no = {0};
  const Buffer<std::uint32_t> skip = to_device<std::uint32_t>(no, stream);
  StepRing ring(3, 71, stream);
  ring.prepare(4, std::vector<cuda::StepInput>(3));
  for (int i = 0; i < 3; ++i) {
    ring.submit_begin();
    ring.submit_end(on_device.data(), skip.data());
  }
  for (const StepOutcome& outcome : ring.outcomes(4, 3)) {
    ASSERT_EQ(outcome.losses.size(), losses.size());
    for (std::size_t worker = 0; worker < losses.size(); ++worker) {
      EXPECT_EQ(outcome.losses[worker].entropy_loss, losses[worker].entropy_loss);
      EXPECT_EQ(outcome.losses[worker].num_correct, losses[worker].num_correct);
    }
  }
}

TEST_F(CudaStepRing, CopiesOnlyOnCondition) {
  Stream stream(Device::cuda());
  const std::vector<std::uint32_t> conditions = {0, 1};
  const Buffer<std::uint32_t> condition = to_device<std::uint32_t>(conditions, stream);
  for (const std::size_t size : {1u, 5u, 4099u}) {
    std::vector<float> from(size), to(size);
    for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<float>(i) + 0.5f;
    const Buffer<float> source = to_device<float>(from, stream);
    Buffer<float> target = to_device<float>(to, stream);
    const auto count = static_cast<std::int64_t>(size);
    cuda::copy_if(condition.data(), source.data(), target.data(), count, stream);
    EXPECT_EQ(to_host<float>(target.span(), stream), to);
    cuda::copy_if(condition.data() + 1, source.data(), target.data(), count, stream);
    EXPECT_EQ(to_host<float>(target.span(), stream), from);
  }
}

}  // namespace
}  // namespace terngrad::step_ring_test
