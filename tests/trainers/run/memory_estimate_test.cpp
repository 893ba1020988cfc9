#include "trainers/run/memory_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "nets/pass_memory.h"
#include "tests/nets/branched_net.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::memory_estimate_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using ::testing::StartsWith;

NetPlan lenet(int num_classes = 10) { return plan_net(net_spec("lenet"), {28, 28, 1}, num_classes); }

std::string refusal(const NetPlan& plan, const MemoryUse& use, double limit) {
  return message_of<UsageError>(
      [&] { require_memory(estimate_memory(plan, use), {.bytes = limit, .subject = "this machine"}); });
}

double bytes_of(const std::vector<MemoryPart>& parts, const std::string& what) {
  for (const MemoryPart& part : parts) {
    if (part.what.starts_with(what)) return part.bytes;
  }
  return 0;
}

TEST(MemoryEstimate, HasAPartForAllThatRunsAllocate) {
  const NetPlan plan = lenet();
  const auto parameters = 4.0 * static_cast<double>(plan.layout.flat_elements());
  double outputs = 0;
  for (const LayerPlan& layer : plan.layers) outputs += static_cast<double>(layer.output.num_elements());
  const std::vector<MemoryPart> parts = estimate_memory(plan, {.num_workers = 6,
                                                               .examples_per_worker = 5,
                                                               .num_slots = 2,
                                                               .has_replicas = true,
                                                               .slices_at_once = 3,
                                                               .batches_at_once = 7});
  EXPECT_EQ(parts.front().bytes, parameters);
  EXPECT_EQ(bytes_of(parts, "the averages of the parameters"), parameters);
  EXPECT_EQ(bytes_of(parts, "the gradient that is applied"), parameters);
  EXPECT_EQ(bytes_of(parts, "the slots"), 2 * parameters);
  EXPECT_EQ(bytes_of(parts, "the gradients of 6 workers"), 6 * parameters);
  EXPECT_EQ(bytes_of(parts, "the parameters of 6 workers"), 6 * parameters);
  EXPECT_EQ(bytes_of(parts, "the activations"), 3 * 5 * outputs * 4);
  EXPECT_EQ(bytes_of(parts, "the gradients of activations"),
            3 * 4.0 * static_cast<double>(PassMemory::elements(plan, 5, Mode::kTraining).gradients));
  EXPECT_EQ(bytes_of(parts, "7 batches"), 7 * 6 * 5 * (28 * 28 + 1) * 4);
}

TEST(MemoryEstimate, PartsOfNothingAreLeftOut) {
  const std::vector<MemoryPart> server = estimate_memory(lenet(), {.num_workers = 0, .batches_at_once = 3});
  EXPECT_EQ(server.size(), 3u) << "parameters, averages and the gradient";
  EXPECT_TRUE(estimate_memory(lenet(), {.num_workers = 0, .has_parameters = false, .num_slots = 2}).empty());
}

TEST(MemoryEstimate, MovingStatisticsAreOfEachWorkerTwiceAndAveraged) {
  const NetPlan plan = plan_net(test::branched_net(0.5f), {9, 8, 4}, 5);
  ASSERT_GT(plan.state_layout.flat_elements(), 0);
  const std::vector<MemoryPart> parts = estimate_memory(plan, {.num_workers = 3});
  EXPECT_EQ(bytes_of(parts, "moving statistics"), 7 * 4.0 * static_cast<double>(plan.state_layout.flat_elements()));
}

TEST(RequireMemory, RunsThatFitPass) {
  const std::vector<MemoryPart> parts = {{.bytes = 600, .what = "one", .lower = "--a"},
                                         {.bytes = 400, .what = "other", .lower = "--b"}};
  EXPECT_NO_THROW(require_memory(parts, {.bytes = 1000, .subject = "this machine"}));
  EXPECT_THROW(require_memory(parts, {.bytes = 999, .subject = "this machine"}), UsageError);
}

TEST(RequireMemory, ManyWorkersAreNamedWithTheirOption) {
  EXPECT_THAT(
      refusal(lenet(), {.num_workers = 16383, .examples_per_worker = 1, .num_slots = 1, .data = "mnist"}, 25e9),
      AllOf(StartsWith("this run needs at least 82."), HasSubstr("GB of memory, and this machine has 25.00 GB: "),
            HasSubstr("GB for the gradients of 16383 workers"), EndsWith("; lower --num_nodes"),
            Not(HasSubstr("averages"))));
}

TEST(RequireMemory, LargeBatchesAreNamedWithTheirOption) {
  EXPECT_THAT(
      refusal(lenet(), {.num_workers = 1, .examples_per_worker = 1'000'000, .slices_at_once = 1, .batches_at_once = 3},
              25e9),
      AllOf(HasSubstr("for the activations of 1000000 examples, "), HasSubstr("3 batches of 1000000 examples"),
            EndsWith("; lower --batch_size")));
}

TEST(RequireMemory, ManyClassesAreNamedWithTheirData) {
  EXPECT_THAT(refusal(lenet(1'000'001), {.num_workers = 1, .num_slots = 1, .data = "npy in 'tiny'"}, 1e9),
              AllOf(HasSubstr("images of 28 x 28 x 1 in 1000001 classes of data set npy in 'tiny'"),
                    EndsWith("; lower --image_size or the number of classes")));
}

}  // namespace
}  // namespace terngrad::memory_estimate_test
